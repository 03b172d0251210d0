//! What a component may call: its log, payloads and topic sets. Of WASI, its output is logged and its
//! environment is empty, and it gets seeds for its hash tables; the rest can be imported and traps when it is called.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use bytes::Bytes;
use wasmtime::component::types::{ComponentInstance, ComponentItem};
use wasmtime::component::{
    Component, ComponentType, InstancePre, Linker, LinkerInstance, Lower, Resource, ResourceTable,
    ResourceType,
};
use wasmtime::{Engine, StoreContextMut};

use super::limits::{HANDLES, Limiter};
use super::lister;
use crate::artifact::OpenError;
use crate::said::{self, MAX_LINE, Speaker, one_line};

/// The interfaces of the contract. Linking and look-up go by semantic version, both ways.
pub(super) const META: &str = "weir:extension/meta@1.0.0";
pub(super) const FILTER: &str = "weir:extension/filter@1.0.0";
pub(super) const LISTER: &str = "weir:extension/lister@1.0.0";
const HOST: &str = "weir:extension/host@1.0.0";
const TOPICS: &str = "weir:extension/topics@1.0.0";
const TEXT_FILTER: &str = "weir:extension/filter-text";

/// What WASI says can be written at once.
const WRITE_AT_ONCE: u64 = 4096;

/// What the host keeps for one instance.
pub(super) struct State {
    pub(super) limiter: Limiter,
    log: Log,
    /// Of the batch that is being judged, if the filter reads payloads.
    pub(super) payloads: Vec<Option<Bytes>>,
    pub(super) sets: lister::Sets,
    pub(super) table: ResourceTable,
}

impl State {
    pub(super) fn new(speaker: Speaker, memory: usize) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        Self {
            limiter: Limiter::new(memory),
            log: Log::new(speaker),
            payloads: Vec::new(),
            sets: lister::Sets::default(),
            table,
        }
    }

    /// What ends with a call: unfinished lines.
    #[inline]
    pub(super) fn end_of_call(&mut self) {
        if self.log.used {
            self.log.end_of_call();
        }
    }

    /// The last line of level error since the call began; a panic's hook writes one.
    pub(super) fn last_words(&mut self) -> Option<String> {
        self.log.last_error.take()
    }
}

/// The lines of one instance.
struct Log {
    speaker: Speaker,
    /// Anything was written since the last end of a call.
    used: bool,
    last_error: Option<String>,
    /// What was written without a line feed to standard output and error.
    partial: [Vec<u8>; 2],
}

impl Log {
    fn new(speaker: Speaker) -> Self {
        Self { speaker, used: false, last_error: None, partial: [Vec::new(), Vec::new()] }
    }

    fn line(&mut self, level: u8, text: &str) {
        self.used = true;
        // The hint at the end of a Rust panic is about the guest's environment, which it has none of.
        if level >= 4 && !text.starts_with("note: ") {
            self.last_error = Some(one_line(text));
        }
        said::log(&self.speaker, level, text);
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        self.used = true;
        let (level, at) = match stream {
            Stream::Output => (2, 0),
            Stream::Error => (4, 1),
        };
        let mut partial = std::mem::take(&mut self.partial[at]);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            partial.extend_from_slice(&piece[..piece.len().min(MAX_LINE)]);
            if piece.ends_with(b"\n") || partial.len() >= MAX_LINE {
                self.line(level, String::from_utf8_lossy(&partial).trim_end());
                partial.clear();
            }
        }
        self.partial[at] = partial;
    }

    fn end_of_call(&mut self) {
        for stream in [Stream::Output, Stream::Error] {
            self.write(stream, b"");
            let at = usize::from(matches!(stream, Stream::Error));
            if !self.partial[at].is_empty() {
                self.write(stream, b"\n");
            }
        }
        self.used = false;
    }
}

/// Decides every import of a component.
///
/// # Errors
/// When it imports what is neither the contract's nor WASI's, or with another type.
pub(super) fn link(engine: &Engine, component: &Component) -> Result<InstancePre<State>, OpenError> {
    let mut linker = Linker::<State>::new(engine);
    for (name, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(interface) = &import.ty else {
            return Err(unknown(name));
        };
        define(&mut linker, engine, name, interface)?;
    }
    let wrong = |error: wasmtime::Error| {
        let error = super::cut(&format!("{error:#}"));
        OpenError(format!("what it imports has another type than what weir offers: {error}"))
    };
    linker.define_unknown_imports_as_traps(component).map_err(wrong)?;
    linker.instantiate_pre(component).map_err(wrong)
}

/// Defines one imported interface, under the very name that the component has for it: where an exact
/// name is defined, no other version is looked for.
pub(super) fn define(
    linker: &mut Linker<State>,
    engine: &Engine,
    name: &str,
    interface: &ComponentInstance,
) -> Result<(), OpenError> {
    let (path, version) = name.split_once('@').unwrap_or((name, ""));
    let ours = [HOST, TOPICS].into_iter().find(|ours| ours.split('@').next() == Some(path));
    if ours.is_none() && !path.starts_with("wasi:") {
        return Err(unknown(name));
    }
    if let Some(ours) = ours
        && !version.starts_with("1.")
    {
        let (version, name) = (super::cut(version), super::cut(name));
        return Err(OpenError(format!(
            "it was built for contract {version}, this host speaks 1.x: it imports {name}, expected {ours}"
        )));
    }
    let defined = linker.instance(name).and_then(|mut instance| match ours {
        Some(HOST) => host(&mut instance),
        Some(_) => lister::topics(&mut instance),
        None => wasi(&mut instance, engine, path, interface),
    });
    defined.map_err(|error| {
        let (name, error) = (super::cut(name), super::cut(&format!("{error:#}")));
        OpenError(format!("its import {name} cannot be linked: {error}"))
    })
}

fn unknown(name: &str) -> OpenError {
    let name = super::cut(name);
    OpenError(format!("it imports {name:?}, which weir does not offer; expected {HOST}, {TOPICS} or wasi:*"))
}

type Context<'a> = StoreContextMut<'a, State>;

fn host(instance: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    instance.func_wrap("log", |mut context: Context<'_>, (level, text): (u8, String)| {
        context.data_mut().log.line(level, &text);
        Ok(())
    })?;
    instance.func_wrap("payload", |context: Context<'_>, (index,): (u32,)| {
        let payloads = &context.data().payloads;
        let payload = match payloads.get(index as usize) {
            Some(Some(payload)) => Ok(payload.to_vec()),
            Some(None) => Err(format!("message {index} has no payload")),
            None if payloads.is_empty() => {
                Err("payload is not among the fields that this filter reads".into())
            }
            None => Err(format!("there is no message {index} in this batch")),
        };
        Ok((payload,))
    })
}

#[derive(Clone, Copy)]
enum Stream {
    Output,
    Error,
}

/// An I/O error of WASI; none is ever made.
struct IoError;

/// What a WASI stream's readiness is asked with.
struct Pollable;

#[derive(ComponentType, Lower)]
#[component(variant)]
#[expect(dead_code, reason = "the contract's type has cases that writing to a log never meets")]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

/// Handles of the two streams; they live as long as the instance.
const OUTPUT: u32 = 1;
const ERROR: u32 = 2;

fn stream(handle: &Resource<Stream>) -> Stream {
    if handle.rep() == ERROR { Stream::Error } else { Stream::Output }
}

/// Captures output, gives an empty environment. A resource that several interfaces share must be the
/// same in all of them, so it is defined wherever it is named, whatever the interface.
fn wasi(
    instance: &mut LinkerInstance<'_, State>,
    engine: &Engine,
    path: &str,
    interface: &ComponentInstance,
) -> wasmtime::Result<()> {
    let shared = [
        ("output-stream", ResourceType::host::<Stream>()),
        ("pollable", ResourceType::host::<Pollable>()),
        ("error", ResourceType::host::<IoError>()),
    ];
    for (name, resource) in shared {
        let item = interface.get_export(engine, name).map(|item| item.ty);
        if matches!(item, Some(ComponentItem::Resource(_))) {
            instance.resource(name, resource, |_, _| Ok(()))?;
        }
    }
    match path {
        "wasi:io/streams" => {
            type Written = Result<(), StreamError>;
            instance.func_wrap(
                "[method]output-stream.check-write",
                |_: Context<'_>, (_,): (Resource<Stream>,)| Ok((Ok::<u64, StreamError>(WRITE_AT_ONCE),)),
            )?;
            for name in ["[method]output-stream.write", "[method]output-stream.blocking-write-and-flush"] {
                instance.func_wrap(
                    name,
                    |mut context: Context<'_>, (to, bytes): (Resource<Stream>, Vec<u8>)| {
                        context.data_mut().log.write(stream(&to), &bytes);
                        Ok((Written::Ok(()),))
                    },
                )?;
            }
            for name in ["[method]output-stream.flush", "[method]output-stream.blocking-flush"] {
                instance
                    .func_wrap(name, |_: Context<'_>, (_,): (Resource<Stream>,)| Ok((Written::Ok(()),)))?;
            }
            instance
                .func_wrap("[method]output-stream.subscribe", |_: Context<'_>, (_,): (Resource<Stream>,)| {
                    Ok((Resource::<Pollable>::new_own(0),))
                })
        }
        // A log is always ready. Pollables of clocks cannot be made: that traps.
        "wasi:io/poll" => {
            instance
                .func_wrap("[method]pollable.block", |_: Context<'_>, (_,): (Resource<Pollable>,)| Ok(()))?;
            instance.func_wrap("[method]pollable.ready", |_: Context<'_>, (_,): (Resource<Pollable>,)| {
                Ok((true,))
            })
        }
        "wasi:cli/stdout" => instance
            .func_wrap("get-stdout", |_: Context<'_>, (): ()| Ok((Resource::<Stream>::new_own(OUTPUT),))),
        "wasi:cli/stderr" => instance
            .func_wrap("get-stderr", |_: Context<'_>, (): ()| Ok((Resource::<Stream>::new_own(ERROR),))),
        // A Rust panic reads RUST_BACKTRACE, and its text would be lost if that trapped.
        "wasi:cli/environment" => instance
            .func_wrap("get-environment", |_: Context<'_>, (): ()| Ok((Vec::<(String, String)>::new(),))),
        // Every hash table of Rust's std asks for it: what keys collide is not to be known beforehand.
        "wasi:random/insecure-seed" => instance.func_wrap("insecure-seed", |_: Context<'_>, (): ()| {
            let random = || RandomState::new().build_hasher().finish();
            Ok(((random(), random()),))
        }),
        _ => Ok(()),
    }
}

/// Why a component is not one of ours, from what it exports.
pub(super) fn wrong_world(engine: &Engine, component: &Component) -> String {
    let ty = component.component_type();
    let exports: Vec<&str> = ty.exports(engine).map(|(name, _)| name).collect();
    let ours = |name: &&&str| name.starts_with("weir:extension/");
    if let Some(other) = exports.iter().filter(ours).find(|name| !name.contains("@1.")) {
        let version = other.split_once('@').map_or("without a version", |(_, version)| version);
        let (version, other) = (super::cut(version), super::cut(other));
        return format!("it was built for contract {version}, this host speaks 1.x: it exports {other}");
    }
    if exports.iter().any(|name| name.starts_with(TEXT_FILTER)) {
        return format!("it exports {TEXT_FILTER}, which this host does not call yet; expected {FILTER}");
    }
    let found = match &exports[..] {
        [] => "nothing".to_owned(),
        some => super::cut(&some.join(", ")),
    };
    format!(
        "it is a component of another world: it exports {found}; expected {META} and {FILTER} or {LISTER}, with all their functions"
    )
}
