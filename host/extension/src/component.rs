//! Components: instances with limits, and calls that end.
//!
//! `limits.rs` counts what an instance takes, `imports.rs` is what it may call, `columns.rs` writes the
//! batch that it judges and `verdicts.rs` reads what it answers. How bytes become a
//! [`Component`] is in `compiled.rs`. No type of wasmtime leaves this folder and that file.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{
    Component, ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower, TypedFunc,
};
use wasmtime::{Config, Engine, Store, Trap};

use crate::artifact::{Description, Limits, Loaded, OpenError, fields_of};
use crate::extensions::Kind;
use crate::filter::{Broke, BrokeKind, MessageFilter};
use crate::lister::TopicLister;
use crate::message::Field;

mod columns;
mod filter;
mod imports;
mod limits;
mod lister;
mod ticker;
mod verdicts;

#[cfg(test)]
mod tests;

use imports::State;
use ticker::Ticker;

/// What `describe` may take: it only gives back a constant.
const DESCRIBE_DEADLINE: Duration = Duration::from_secs(1);

/// What `configure` may take at least: it compiles patterns and builds tables.
const CONFIGURE_DEADLINE: Duration = Duration::from_secs(1);

/// The engine of this process and the clock that ends its calls.
pub(crate) struct Runtime {
    engine: Engine,
    ticker: Arc<Ticker>,
}

impl Runtime {
    /// Starts the engine and its clock.
    pub(crate) fn new() -> Self {
        let engine = Self::engine_without_ticker();
        let ticker = Arc::new(Ticker::start(&engine));
        Self { engine, ticker }
    }

    /// An engine whose calls nobody ends: for compiling only.
    pub(crate) fn engine_without_ticker() -> Engine {
        let mut config = Config::new();
        config
            // 109 ns a call instead of 341: no books are kept for tasks that no extension has.
            .concurrency_support(false)
            .epoch_interruption(true)
            // A backtrace names functions of the guest, and stripped guests have none.
            .wasm_backtrace_max_frames(None);
        Engine::new(&config).expect("these settings fit together on every machine that weir is built for")
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// An opened component: instances are made from it. Shared by all workers.
pub(crate) struct Extension {
    description: Description,
    component: Linked,
    limits: Limits,
}

/// A component whose imports are all decided, and what instances of it need.
#[derive(Clone)]
struct Linked {
    pre: InstancePre<State>,
    ticker: Arc<Ticker>,
    exports: Exports,
    class: Arc<str>,
}

/// Where the functions of the contract lie in a component.
#[derive(Clone)]
struct Exports {
    describe: ComponentExportIndex,
    configure: ComponentExportIndex,
    judge: Option<ComponentExportIndex>,
    answer: Option<ComponentExportIndex>,
}

impl Extension {
    /// Links and describes a component.
    ///
    /// # Errors
    /// When it has other exports or imports than the contract, needs more than the limits from the
    /// start, or breaks when asked to describe itself.
    pub(crate) fn open(runtime: &Runtime, component: &Component, limits: Limits) -> Result<Self, OpenError> {
        let engine = &runtime.engine;
        let exports = Exports::find(engine, component)?;
        limits::check(component, &limits)?;
        let pre = imports::link(engine, component)?;
        let ticker = runtime.ticker.clone();
        let mut linked = Linked { pre, ticker, exports, class: "?".into() };
        let description = linked.describe(&limits)?;
        linked.class = description.class.as_str().into();
        for (kind, export) in [(Kind::Filter, &linked.exports.judge), (Kind::Lister, &linked.exports.answer)]
        {
            if description.kinds.contains(&kind) && export.is_none() {
                return Err(OpenError(format!(
                    "{} says that it is a {} and exports no {}",
                    description.class,
                    kind_name(kind),
                    if kind == Kind::Filter { imports::FILTER } else { imports::LISTER },
                )));
            }
        }
        Ok(Self { description, component: linked, limits })
    }

    /// An instance that has taken its configuration, and the fields that it will read.
    fn configured(&self, config: &str) -> Result<(Guest, Vec<Field>), Broke> {
        let mut guest = self.component.instantiate(&self.limits)?;
        let configure = guest.function::<(String,), (Result<String, String>,)>(
            &self.component.exports.configure,
            "configure",
        )?;
        let deadline = CONFIGURE_DEADLINE.max(self.limits.deadline);
        match guest.call(&configure, (config.to_owned(),), deadline)?.0 {
            Ok(json) => Ok((guest, fields_of(&json)?)),
            Err(reason) => Err(Broke { kind: BrokeKind::Error, reason }),
        }
    }

    fn export<'e>(
        &self,
        export: &'e Option<ComponentExportIndex>,
        kind: Kind,
    ) -> Result<&'e ComponentExportIndex, Broke> {
        export.as_ref().ok_or_else(|| Broke {
            kind: BrokeKind::Error,
            reason: format!("{} is no {}", self.description.class, kind_name(kind)),
        })
    }
}

impl Loaded for Extension {
    fn description(&self) -> &Description {
        &self.description
    }

    fn configure(&self, config: &str) -> Result<Vec<Field>, Broke> {
        self.configured(config).map(|(_, fields)| fields)
    }

    fn filter(&self, config: &str, fields: &Arc<[Field]>) -> Result<Box<dyn MessageFilter>, Broke> {
        let (mut guest, found) = self.configured(config)?;
        if *found != **fields {
            return Err(Broke {
                kind: BrokeKind::BadAnswer,
                reason: "it reads other fields than it did with this configuration before".into(),
            });
        }
        let judge = guest.function(self.export(&self.component.exports.judge, Kind::Filter)?, "judge")?;
        Ok(Box::new(filter::ComponentFilter::new(guest, judge, fields.clone(), self.limits)))
    }

    fn lister(&self, config: &str) -> Result<Box<dyn TopicLister>, Broke> {
        let (mut guest, _) = self.configured(config)?;
        let answer = guest.function(self.export(&self.component.exports.answer, Kind::Lister)?, "answer")?;
        Ok(Box::new(lister::ComponentLister::new(guest, answer, self.limits)))
    }
}

impl Linked {
    fn instantiate(&self, limits: &Limits) -> Result<Guest, Broke> {
        let mut store = Store::new(self.pre.engine(), State::new(self.class.clone(), limits.memory));
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(limits::HOST_CALL_BYTES);
        store.set_max_component_handles(limits::HANDLES);
        // Instantiating runs the guest's start functions.
        store.set_epoch_deadline(self.ticker.ticks(CONFIGURE_DEADLINE.max(limits.deadline)));
        match self.pre.instantiate(&mut store) {
            Ok(instance) => Ok(Guest { store, instance, ticker: self.ticker.clone(), broken: None }),
            Err(error) => Err(explain(&error, store.data_mut())),
        }
    }

    fn describe(&self, limits: &Limits) -> Result<Description, OpenError> {
        let broke = |broke: Broke| {
            OpenError(match broke.kind {
                BrokeKind::Deadline => {
                    format!("describe did not end within {} s", DESCRIBE_DEADLINE.as_secs())
                }
                kind => format!("describe broke ({kind}): {}", broke.reason),
            })
        };
        let mut guest = self.instantiate(limits).map_err(|error| {
            OpenError(format!("no instance of it could be made ({}): {}", error.kind, error.reason))
        })?;
        let describe = guest.function::<(), (String,)>(&self.exports.describe, "describe").map_err(broke)?;
        let (json,) = guest.call(&describe, (), DESCRIBE_DEADLINE).map_err(broke)?;
        Description::parse(&json)
    }
}

impl Exports {
    fn find(engine: &Engine, component: &Component) -> Result<Self, OpenError> {
        let find = |interface: &str, function: &str| {
            let interface = component.get_export_index(None, interface)?;
            component.get_export_index(Some(&interface), function)
        };
        let judge = find(imports::FILTER, "judge");
        let answer = find(imports::LISTER, "answer");
        match (find(imports::META, "describe"), find(imports::META, "configure")) {
            (Some(describe), Some(configure)) if judge.is_some() || answer.is_some() => {
                Ok(Self { describe, configure, judge, answer })
            }
            _ => Err(OpenError(imports::wrong_world(engine, component))),
        }
    }
}

/// One instance, with all that it holds. Belongs to one worker.
struct Guest {
    store: Store<State>,
    instance: Instance,
    ticker: Arc<Ticker>,
    /// The first break: a trapped instance refuses every later call, and an interrupted one is in no
    /// state to be trusted.
    broken: Option<Broke>,
}

impl Guest {
    fn function<P, R>(&mut self, export: &ComponentExportIndex, name: &str) -> Result<TypedFunc<P, R>, Broke>
    where
        P: ComponentNamedList + Lower,
        R: ComponentNamedList + Lift,
    {
        self.instance.get_typed_func(&mut self.store, export).map_err(|error| Broke {
            kind: BrokeKind::BadAnswer,
            reason: format!("its function {name} has another type than the contract's: {error:#}"),
        })
    }

    /// Calls a function, for at most `deadline`.
    #[inline]
    fn call<P, R>(&mut self, function: &TypedFunc<P, R>, params: P, deadline: Duration) -> Result<R, Broke>
    where
        P: ComponentNamedList + Lower,
        R: ComponentNamedList + Lift,
    {
        if let Some(Broke { kind, reason }) = &self.broken {
            let reason = format!("this instance broke before and must be thrown away: {reason}");
            return Err(Broke { kind: *kind, reason });
        }
        self.store.set_epoch_deadline(self.ticker.ticks(deadline));
        let result = function.call(&mut self.store, params);
        self.store.data_mut().end_of_call();
        result.map_err(|error| {
            let broke = explain(&error, self.store.data_mut());
            self.broken = Some(broke.clone());
            broke
        })
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Filter => "filter",
        Kind::Lister => "lister",
    }
}

/// In which way a call broke, and a sentence about it.
fn explain(error: &wasmtime::Error, state: &mut State) -> Broke {
    let said = state.last_words();
    let with = |what: String| match &said {
        Some(said) => format!("{what}; its last words: {said}"),
        None => what,
    };
    if state.limiter.refused() {
        let limit = state.limiter.limit();
        return Broke {
            kind: BrokeKind::Memory,
            reason: with(format!("it wanted more than the {limit} bytes of memory that it may have")),
        };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => {
            Broke { kind: BrokeKind::Deadline, reason: "it took longer than its deadline".into() }
        }
        Some(Trap::UnreachableCodeReached) => {
            Broke { kind: BrokeKind::Trap, reason: with("it panicked or gave up".into()) }
        }
        Some(trap) => Broke { kind: BrokeKind::Trap, reason: with(trap.to_string()) },
        None => {
            let reason = format!("{error:#}");
            let kind = if limits::is_limit(&reason) { BrokeKind::Memory } else { BrokeKind::Trap };
            Broke { kind, reason: with(reason) }
        }
    }
}
