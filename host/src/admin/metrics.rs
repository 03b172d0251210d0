//! `/metrics`, in Prometheus' text form (OpenMetrics 1.0).
//!
//! Everything is read at the moment of the scrape, from counters that others keep. No series names a topic or
//! a subscription: their number would grow with use. Classes are registered by people, and few.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};
use weir_broker::{Broker, Figures};
use weir_extension::{Counts, ExtensionInfo, Extensions, LoaderFigures, LogFigures, Times, log_figures};

use super::errors::Refusal;
use super::{MAX_FOLLOWERS, Shared};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One version of an extension.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfVersion {
    class: String,
    version: String,
}

/// A version, and the form that it came in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfForm {
    class: String,
    version: String,
    form: &'static str,
}

/// What one version said, or how it broke.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    class: String,
    version: String,
    outcome: String,
}

/// What became of the log lines of a class, whichever version wrote them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLines {
    class: String,
    outcome: &'static str,
}

/// Seconds, counted up.
type Seconds = Counter<f64, AtomicU64>;

/// Reads everything that is counted, at this moment.
pub(super) async fn show(State(admin): Shared) -> Response {
    // Locks are taken in turn, one of which is held across the disk while a failed store is opened again.
    let text = tokio::task::spawn_blocking(move || {
        let mut registry = Registry::default();
        let about = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("weir_build", "The weir that answers", about);
        admin.metrics.register(&mut registry);
        broker(&admin.broker, &mut registry);
        extensions(&admin.extensions, &mut registry);
        let followers = MAX_FOLLOWERS - admin.followers.available_permits();
        let help = "Connections that follow the log lines of an extension";
        registry.register("weir_log_followers", help, gauge(followers as u64));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).map(|()| text)
    });
    let failed = |reason: String| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, reason).into_response();
    match text.await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Ok(Err(error)) => failed(format!("metrics cannot be written: {error}")),
        Err(error) => failed(format!("metrics were given up: {error}")),
    }
}

fn broker(broker: &Broker, registry: &mut Registry) {
    let Figures {
        topics,
        partitions,
        loaded,
        subscriptions,
        paused_subscriptions,
        producers,
        consumers,
        unacked_messages,
        withheld_messages,
        rescheduled_messages,
        held_threads,
        delivering_bytes,
        topics_to_remove,
        store_failing,
        store_failures,
    } = broker.figures();
    let weir = registry.sub_registry_with_prefix("weir");
    for (name, help, value) in [
        ("topics", "Topics, a partitioned one counted once", topics),
        ("topic_partitions", "Topics, partitions counted one by one", partitions),
        ("topics_loaded", "Those of them that are loaded", loaded),
        ("subscriptions", "Subscriptions of loaded topics", subscriptions),
        ("subscriptions_paused", "Subscriptions that a filter holds at their cursor", paused_subscriptions),
        ("producers", "Producers that are connected", producers),
        ("consumers", "Consumers that are connected", consumers),
        ("unacked_messages", "Messages out at consumers", unacked_messages),
        ("withheld_messages", "Messages that wait because a filter broke on them", withheld_messages),
        (
            "rescheduled_messages",
            "Messages that wait because a filter rescheduled them",
            rescheduled_messages,
        ),
        ("judging_threads_held", "Judging threads that an extension holds", held_threads),
        ("delivering_bytes", "Bytes of entries in memory on their way to consumers", delivering_bytes),
        ("topics_to_remove", "Deleted topics whose entries still take room", topics_to_remove),
        ("store_failing", "1 while the store cannot be written, 0 otherwise", u64::from(store_failing)),
    ] {
        weir.register(name, help, gauge(value));
    }
    weir.register(
        "store_failures",
        "Failed writes and vain tries to open the store again",
        counter(store_failures),
    );
}

fn extensions(extensions: &Extensions, registry: &mut Registry) {
    let LoaderFigures { libraries, max_libraries, compilations, compiling, found_compiled, damaged } =
        extensions.figures();
    let own = registry.sub_registry_with_prefix("weir_extension");
    own.register("native_libraries", "Native libraries held open until a restart", gauge(libraries as u64));
    let most = gauge(max_libraries as u64);
    own.register("native_libraries_limit", "How many may be (plugins.max-native-libraries)", most);
    own.register("compilations", "Components compiled, by either compiler", counter(compilations));
    let compiling = seconds(compiling.as_secs_f64());
    own.register_with_unit("compile", "Time that compiling took, by the clock", Unit::Seconds, compiling);
    own.register("found_compiled", "Components whose code was found compiled", counter(found_compiled));
    let help = "Files of compiled code that were damaged or foreign, and made anew";
    own.register("code_damaged", help, counter(damaged));
    let help = "Versions that broke too often on trial, and were taken back by themselves";
    own.register("versions_taken_back", help, counter(extensions.taken_back()));
    let weir = registry.sub_registry_with_prefix("weir");
    let files = gauge(extensions.refused().len() as u64);
    weir.register("drop_folder_files_not_in_force", "Files of the drop folder that are not in force", files);

    let of_versions = Versions::default();
    extensions.list().iter().for_each(|extension| of_versions.add(extension));
    let own = registry.sub_registry_with_prefix("weir_extension");
    own.register("in_force", "1 where the version can be called, 0 otherwise", of_versions.in_force);
    own.register("messages", "Messages judged, by what was said, or broke", of_versions.messages);
    own.register("calls", "Calls, by whether they were answered or how they broke", of_versions.calls);
    own.register("listings", "Listings answered", of_versions.listings);
    let help = "Time that a batch of messages or a listing took, whatever its calls";
    own.register_with_unit("call", help, Unit::Seconds, of_versions.times);
    own.register("instances", "Instances that are alive", of_versions.instances);
    let lines = Family::<OfLines, Counter>::default();
    for LogFigures { class, logged, dropped } in log_figures() {
        for (outcome, count) in [("logged", logged), ("dropped", dropped)] {
            lines.get_or_create(&OfLines { class: class.to_string(), outcome }).inc_by(count);
        }
    }
    own.register("log_lines", "Lines for the log; dropped are those beyond what a class may write", lines);
}

/// The times of a version's batches and listings, and their sum.
#[derive(Debug, Default)]
struct CallTimes(OnceLock<(Times, Duration)>);

impl TypedMetric for CallTimes {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for CallTimes {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some((times, sum)) = self.0.get() else { return Ok(()) };
        // What the encoder takes for "without an upper bound".
        let buckets = times.buckets().map(|(bound, n)| (if bound.is_finite() { bound } else { f64::MAX }, n));
        let buckets: Vec<(f64, u64)> = buckets.collect();
        let none: Option<&HashMap<usize, Exemplar<OfVersion, f64>>> = None;
        encoder.encode_histogram(sum.as_secs_f64(), times.count(), &buckets, none)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// What the versions in force have done.
#[derive(Default)]
struct Versions {
    in_force: Family<OfForm, Gauge>,
    messages: Family<Outcome, Counter>,
    calls: Family<Outcome, Counter>,
    listings: Family<OfVersion, Counter>,
    times: Family<OfVersion, CallTimes>,
    instances: Family<OfVersion, Gauge>,
}

impl Versions {
    fn add(&self, extension: &ExtensionInfo) {
        let ExtensionInfo { class, version, form, state, counts, .. } = extension;
        let (class, version) = (class.to_string(), version.clone());
        let of_form = OfForm { class: class.clone(), version: version.clone(), form: form.as_str() };
        self.in_force.get_or_create(&of_form).set(i64::from(state == "in-force"));
        let of = |outcome: &str| Outcome {
            class: class.clone(),
            version: version.clone(),
            outcome: outcome.to_owned(),
        };
        let Counts { calls, accepted, rejected, rescheduled, broke, answered, broken_calls, .. } = counts;
        for (outcome, count) in
            [("accepted", accepted), ("rejected", rejected), ("rescheduled", rescheduled), ("broke", broke)]
        {
            self.messages.get_or_create(&of(outcome)).inc_by(*count);
        }
        let broken: u64 = broken_calls.values().sum();
        self.calls.get_or_create(&of("answered")).inc_by(calls.saturating_sub(broken));
        for (kind, count) in broken_calls {
            self.calls.get_or_create(&of(kind)).inc_by(*count);
        }
        let of_version = OfVersion { class, version };
        self.listings.get_or_create(&of_version).inc_by(*answered);
        let alive = i64::try_from(counts.instances).unwrap_or(i64::MAX);
        self.instances.get_or_create(&of_version).set(alive);
        let told = (counts.times.clone(), Duration::from_micros(counts.micros));
        self.times.get_or_create(&of_version).0.get_or_init(|| told);
    }
}

fn gauge(value: u64) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    gauge
}

fn counter(value: u64) -> Counter {
    let counter = Counter::default();
    counter.inc_by(value);
    counter
}

fn seconds(value: f64) -> Seconds {
    let seconds = Seconds::default();
    seconds.inc_by(value);
    seconds
}
