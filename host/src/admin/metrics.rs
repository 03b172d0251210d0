//! `/metrics`, in Prometheus' text form.

use std::sync::atomic::AtomicU64;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use weir_extension::{Counts, Extensions, LoaderFigures};

use super::Shared;
use super::errors::Refusal;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One version of an extension. There are as many series as classes are registered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfExtension {
    class: String,
    version: String,
    form: String,
}

/// A verdict, or a way to break, of one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    class: String,
    outcome: String,
}

/// Reads everything that is counted, at this moment.
pub(super) async fn show(State(admin): Shared) -> Response {
    let mut registry = Registry::default();
    admin.metrics.register(&mut registry);
    let delivering = Gauge::<i64>::default();
    delivering.set(i64::try_from(admin.broker.delivering_bytes()).unwrap_or(i64::MAX));
    let weir = registry.sub_registry_with_prefix("weir");
    weir.register("delivering_bytes", "Bytes of entries in memory on their way to consumers", delivering);
    extensions(&admin.extensions, &mut registry);
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("metrics cannot be written: {error}"))
                .into_response()
        }
    }
}

fn extensions(extensions: &Extensions, registry: &mut Registry) {
    let info = Family::<OfExtension, Gauge>::default();
    let messages = Family::<Outcome, Counter>::default();
    let calls = Family::<Outcome, Counter>::default();
    let micros = Family::<Outcome, Counter>::default();
    for extension in extensions.list() {
        let class = extension.class.as_str().to_owned();
        let form = format!("{:?}", extension.form).to_lowercase();
        let in_force = i64::from(extension.state == "in-force");
        info.get_or_create(&OfExtension { class: class.clone(), version: extension.version, form })
            .set(in_force);
        let of = |outcome: &str| Outcome { class: class.clone(), outcome: outcome.to_owned() };
        let Counts { accepted, rejected, rescheduled, broke, answered, .. } = extension.counts;
        for (outcome, count) in
            [("accepted", accepted), ("rejected", rejected), ("rescheduled", rescheduled), ("broke", broke)]
        {
            messages.get_or_create(&of(outcome)).inc_by(count);
        }
        let broken: u64 = extension.counts.broken_calls.values().sum();
        calls.get_or_create(&of("answered")).inc_by(extension.counts.calls.saturating_sub(broken));
        for (kind, count) in &extension.counts.broken_calls {
            calls.get_or_create(&of(kind)).inc_by(*count);
        }
        if answered > 0 {
            calls.get_or_create(&of("listed")).inc_by(answered);
        }
        micros.get_or_create(&of("all")).inc_by(extension.counts.micros);
    }
    let own = registry.sub_registry_with_prefix("weir_extension");
    own.register("in_force", "1 where the version can be called", info);
    own.register("messages", "Messages judged, by what was said or broke", messages);
    own.register("calls", "Calls, by whether and how they broke", calls);
    own.register("call_microseconds", "Time spent in calls", micros);
    loader(&extensions.figures(), own);
}

/// What opening artifacts has cost.
fn loader(figures: &LoaderFigures, own: &mut Registry) {
    let gauge = |n: usize| {
        let gauge = Gauge::<i64>::default();
        gauge.set(i64::try_from(n).unwrap_or(i64::MAX));
        gauge
    };
    let counter = |n: u64| {
        let counter = Counter::<u64>::default();
        counter.inc_by(n);
        counter
    };
    let seconds = Counter::<f64, AtomicU64>::default();
    seconds.inc_by(figures.compiling.as_secs_f64());
    own.register("native_libraries", "Native libraries held open until a restart", gauge(figures.libraries));
    own.register(
        "native_libraries_limit",
        "How many may be (plugins.max-native-libraries)",
        gauge(figures.max_libraries),
    );
    own.register("compilations", "Components compiled, by either compiler", counter(figures.compilations));
    own.register("compile_seconds", "Time that compiling took, by the clock", seconds);
    own.register(
        "found_compiled",
        "Components whose code was found compiled",
        counter(figures.found_compiled),
    );
    own.register(
        "code_damaged",
        "Files of compiled code that were damaged or foreign, and made anew",
        counter(figures.damaged),
    );
}
