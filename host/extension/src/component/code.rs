//! The code of a component: what instances are made from, and its replacement by better code of the same
//! bytes while it is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tracing::warn;
use wasmtime::component::{Component, InstancePre};
use wasmtime::{Engine, Store};

use super::imports::{self, State};
use super::ticker::Ticker;
use super::{CONFIGURE_DEADLINE, DESCRIBE_DEADLINE, Exports, Guest, Tier, explain, limits};
use crate::artifact::{CompiledBy, Description, Limits, OpenError, fields_of};
use crate::filter::{Broke, BrokeKind};
use crate::message::Field;
use crate::said::Speaker;

/// The code in force of an opened component. Shared by its instances.
pub(crate) struct Code {
    linked: ArcSwap<Linked>,
    speaker: Speaker,
    limits: Limits,
    /// Why Winch's code stays.
    stays: Mutex<Option<String>>,
}

/// A component whose imports are all decided, and what instances of it need.
pub(super) struct Linked {
    pub(super) pre: InstancePre<State>,
    pub(super) ticker: Arc<Ticker>,
    pub(super) exports: Exports,
    /// Who its instances are in the log.
    pub(super) speaker: Speaker,
    pub(super) tier: Tier,
    /// There is better code now: looked at once a call.
    pub(super) superseded: AtomicBool,
}

/// What an instance is made from, and can be made from again.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) code: Arc<Code>,
    pub(super) linked: Arc<Linked>,
    pub(super) config: Arc<str>,
    /// An instance could not be made from better code: the one that there is goes on.
    pub(super) settled: bool,
}

impl Code {
    pub(super) fn new(linked: Linked, limits: Limits) -> Self {
        let speaker = linked.speaker.clone();
        Self { linked: ArcSwap::from_pointee(linked), speaker, limits, stays: Mutex::default() }
    }

    /// The class that it is of.
    pub(crate) fn class(&self) -> &str {
        &self.speaker.class
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn linked(&self) -> Arc<Linked> {
        self.linked.load_full()
    }

    /// Puts other code of the same bytes in force. Instances notice at their next call.
    ///
    /// # Errors
    /// When it does not describe itself as the code before it does.
    pub(crate) fn replace(&self, component: &Component) -> Result<(), OpenError> {
        let before = self.linked();
        let linked = Linked::new(
            component,
            Tier::Cranelift,
            before.ticker.clone(),
            &self.limits,
            self.speaker.clone(),
        )?;
        let described = linked.describe(&self.limits)?;
        if described.class.as_str() != self.class() {
            return Err(OpenError(format!("it declares class {} as compiled anew", described.class)));
        }
        self.linked.store(Arc::new(linked));
        before.superseded.store(true, Ordering::Release);
        Ok(())
    }

    /// Notes that there will be no better code.
    pub(crate) fn stays(&self, reason: String) {
        *self.stays.lock() = Some(reason);
    }

    pub(super) fn compiled_by(&self) -> CompiledBy {
        let tier = self.linked().tier;
        let note = match (tier, &*self.stays.lock()) {
            (Tier::Cranelift, _) => None,
            (Tier::Winch, None) => Some("cranelift is compiling".to_owned()),
            (Tier::Winch, Some(reason)) => Some(format!("cranelift's is not to be had: {reason}")),
        };
        CompiledBy { by: tier.as_str(), note }
    }

    /// An instance that has taken its configuration, and the fields that it will read.
    pub(super) fn configured(self: &Arc<Self>, config: &str) -> Result<(Guest, Origin, Vec<Field>), Broke> {
        let linked = self.linked();
        let mut guest = linked.instantiate(&self.limits)?;
        let configure =
            guest.function::<(String,), (Result<String, String>,)>(&linked.exports.configure, "configure")?;
        let deadline = CONFIGURE_DEADLINE.max(self.limits.deadline);
        match guest.call(&configure, (config.to_owned(),), deadline)?.0 {
            Ok(json) => {
                let origin = Origin { code: self.clone(), linked, config: config.into(), settled: false };
                Ok((guest, origin, fields_of(&json)?))
            }
            Err(reason) => Err(Broke { kind: BrokeKind::Error, reason: super::cut(&reason) }),
        }
    }
}

impl Origin {
    /// Whether there is better code than an instance's, to go on with between two calls.
    #[inline]
    pub(super) fn is_superseded(&self) -> bool {
        self.linked.superseded.load(Ordering::Relaxed) && !self.settled
    }

    /// What goes on in place of an instance, made from the better code. If it cannot be made, that is told
    /// and not tried again.
    #[cold]
    pub(super) fn better<T>(&mut self, make: impl FnOnce(&Arc<Code>, &str) -> Result<T, Broke>) -> Option<T> {
        match make(&self.code, &self.config) {
            Ok(better) => Some(better),
            Err(broke) => {
                warn!(class = self.code.class(), %broke, "an instance goes on with Winch's code");
                self.settled = true;
                None
            }
        }
    }
}

impl Linked {
    /// Decides the imports of a component.
    ///
    /// # Errors
    /// When it has other exports or imports than the contract, or needs more than the limits from the
    /// start.
    pub(super) fn new(
        component: &Component,
        tier: Tier,
        ticker: Arc<Ticker>,
        limits: &Limits,
        speaker: Speaker,
    ) -> Result<Self, OpenError> {
        let engine: &Engine = component.engine();
        let exports = Exports::find(engine, component)?;
        limits::check(component, limits)?;
        let pre = imports::link(engine, component)?;
        Ok(Self { pre, ticker, exports, speaker, tier, superseded: AtomicBool::new(false) })
    }

    fn instantiate(&self, limits: &Limits) -> Result<Guest, Broke> {
        let mut store = Store::new(self.pre.engine(), State::new(self.speaker.clone(), limits.memory));
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

    pub(super) fn describe(&self, limits: &Limits) -> Result<Description, OpenError> {
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
