//! Components: instances with limits, and calls that end.
//!
//! `code.rs` is what instances are made from, `limits.rs` counts what one takes, `imports.rs` is what it may call, `columns.rs` writes the
//! batch that it judges and `verdicts.rs` reads what it answers. How bytes become a
//! [`Component`] is in `compiled.rs`. No type of wasmtime leaves this folder and that file.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{
    Component, ComponentExportIndex, ComponentNamedList, Instance, Lift, Lower, TypedFunc,
};
use wasmtime::{Config, Engine, Store, Strategy, Trap};

use crate::artifact::{CompiledBy, Description, Limits, Loaded, OpenError};
use crate::extensions::Kind;
use crate::filter::{Broke, BrokeKind, MessageFilter};
use crate::lister::TopicLister;
use crate::message::Field;
use crate::said;

mod code;
mod columns;
mod filter;
mod imports;
mod limits;
mod lister;
mod ticker;
mod verdicts;

#[cfg(test)]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;

pub(crate) use code::Code;
use code::Linked;
use imports::State;
use ticker::Ticker;

/// What `describe` may take: it only gives back a constant.
const DESCRIBE_DEADLINE: Duration = Duration::from_secs(1);

/// The most bytes of a guest's own sentence that are kept.
const MAX_REASON: usize = 400;

/// What `configure` may take at least: it compiles patterns and builds tables.
const CONFIGURE_DEADLINE: Duration = Duration::from_secs(1);

/// Who compiled a component. Code of one runs in no engine of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// In one pass: soon there, slower to run.
    Winch,
    /// Optimised.
    Cranelift,
}

impl Tier {
    /// As listings show it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Winch => "winch",
            Self::Cranelift => "cranelift",
        }
    }
}

/// The engines of this process and the clock that ends their calls.
pub(crate) struct Runtime {
    /// `None` on a machine that Winch knows nothing of.
    winch: Option<Engine>,
    cranelift: Engine,
    ticker: Arc<Ticker>,
}

impl Runtime {
    /// Starts the engines and their clock.
    pub(crate) fn new() -> Self {
        let winch = Self::compiling_engine(Tier::Winch).ok();
        let cranelift = Self::compiling_engine(Tier::Cranelift)
            .expect("these settings fit together on every machine that weir is built for");
        // Each engine has an epoch of its own.
        let ticker = Arc::new(Ticker::start(winch.iter().chain([&cranelift]).cloned().collect()));
        Self { winch, cranelift, ticker }
    }

    /// An engine whose calls nobody ends: for compiling only.
    ///
    /// # Errors
    /// When there is no such compiler for this machine.
    pub(crate) fn compiling_engine(tier: Tier) -> wasmtime::Result<Engine> {
        let mut config = Config::new();
        config
            .strategy(match tier {
                Tier::Winch => Strategy::Winch,
                Tier::Cranelift => Strategy::Cranelift,
            })
            // One core: a component that is built to make compilers suffer is to leave the others alone.
            .parallel_compilation(false)
            // 109 ns a call instead of 341: no books are kept for tasks that no extension has.
            .concurrency_support(false)
            .epoch_interruption(true)
            // A backtrace names functions of the guest, and stripped guests have none.
            .wasm_backtrace_max_frames(None);
        Engine::new(&config)
    }

    /// The engine that runs what this compiler made, if it knows this machine.
    pub(crate) fn engine(&self, tier: Tier) -> Option<&Engine> {
        match tier {
            Tier::Winch => self.winch.as_ref(),
            Tier::Cranelift => Some(&self.cranelift),
        }
    }

    pub(crate) fn cranelift(&self) -> &Engine {
        &self.cranelift
    }
}

/// An opened component: instances are made from it. Shared by all workers.
pub(crate) struct Extension {
    description: Description,
    code: Arc<Code>,
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
    /// Links and describes a component that `tier` compiled.
    ///
    /// # Errors
    /// When it has other exports or imports than the contract, needs more than the limits from the
    /// start, or breaks when asked to describe itself.
    pub(crate) fn open(
        runtime: &Runtime,
        component: &Component,
        tier: Tier,
        limits: Limits,
    ) -> Result<Self, OpenError> {
        let mut linked =
            Linked::new(component, tier, runtime.ticker.clone(), &limits, said::Speaker::unknown())?;
        let description = linked.describe(&limits)?;
        linked.speaker = said::Speaker::new(description.class.as_str(), &description.version);
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
        Ok(Self { description, code: Arc::new(Code::new(linked, limits)) })
    }

    /// What its instances are made from.
    pub(crate) fn code(&self) -> &Arc<Code> {
        &self.code
    }
}

impl Loaded for Extension {
    fn description(&self) -> &Description {
        &self.description
    }

    fn compiled_by(&self) -> Option<CompiledBy> {
        Some(self.code.compiled_by())
    }

    fn configure(&self, config: &str) -> Result<Vec<Field>, Broke> {
        self.code.configured(config).map(|(_, _, fields)| fields)
    }

    fn filter(&self, config: &str, fields: &Arc<[Field]>) -> Result<Box<dyn MessageFilter>, Broke> {
        Ok(Box::new(filter::ComponentFilter::new(&self.code, config, fields)?))
    }

    fn lister(&self, config: &str) -> Result<Box<dyn TopicLister>, Broke> {
        Ok(Box::new(lister::ComponentLister::new(&self.code, config)?))
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
            reason: cut(&format!("its function {name} has another type than the contract's: {error:#}")),
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

/// What a guest says of itself, short enough for a listing and the log.
fn cut(text: &str) -> String {
    said::one_line(&text[..text.floor_char_boundary(MAX_REASON)])
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
            let reason = cut(&format!("{error:#}"));
            let kind = if limits::is_limit(&reason) { BrokeKind::Memory } else { BrokeKind::Trap };
            Broke { kind, reason: with(reason) }
        }
    }
}
