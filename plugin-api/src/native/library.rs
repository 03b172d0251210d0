//! The extension's side: the functions of its root module, each for one author's type.

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::OnceLock;

use abi_stable::sabi_trait::TD_Opaque;
use abi_stable::std_types::{RNone, ROption, RResult, RSliceMut, RSome, RStr, RString};

use super::v1_0::{
    Batch, Failure, Filter, Filter_TO, FilterBox, Host, Lister, Lister_TO, ListerBox, TopicSetsRef,
};
use crate::filter::{MessageFilter, Ready};
use crate::lister::{Request, TopicLister, Topics};
use crate::message::Message;
use crate::verdict::{Error, encode};

/// Where this library's log lines go. One for each library: a library has statics of its own.
static HOST: OnceLock<Host> = OnceLock::new();

thread_local! {
    /// What the thread's last panic said, from the hook to whoever caught it.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Writes to the host's log.
pub(crate) fn log(level: u8, text: &str) {
    if let Some(host) = HOST.get() {
        (host.log)(host.context, level, RStr::from_str(text));
    }
}

/// Called by the root module's constructor: a library has a standard library of its own, whose panics
/// would go to the host's standard error, past its log.
pub fn constructed() {
    set_hook(Box::new(|info| PANIC.set(info.to_string())));
}

/// `Root::start`.
pub extern "C" fn start(host: Host) {
    // A library is opened once; were it twice, the first host would stay.
    let _already = HOST.set(host);
}

/// `Root::describe` of a filter.
pub fn describe_filter<F: MessageFilter>(version: &str, contract: &str) -> RString {
    let schema = <F::Config as crate::Config>::SCHEMA;
    crate::json::describe(F::CLASS, "filter", version, contract, schema).into()
}

/// `Root::describe` of a lister.
pub fn describe_lister<L: TopicLister>(version: &str, contract: &str) -> RString {
    let schema = <L::Config as crate::Config>::SCHEMA;
    crate::json::describe(L::CLASS, "lister", version, contract, schema).into()
}

/// `Root::filter` of a filter.
pub extern "C" fn filter<F: MessageFilter>(config: RStr<'_>) -> RResult<FilterBox, Failure> {
    caught(|| Ready::<F>::new(config.as_str()))
        .map(|ready| Filter_TO::from_value(Guarded::new(ready), TD_Opaque))
        .into()
}

/// `Root::lister` of a lister.
pub extern "C" fn lister<L: TopicLister>(config: RStr<'_>) -> RResult<ListerBox, Failure> {
    caught(|| L::new(<L::Config as crate::Config>::parse(config.as_str())?))
        .map(|lister| Lister_TO::from_value(Guarded::new(lister), TD_Opaque))
        .into()
}

/// `Root::filter` of an extension that is none.
pub extern "C" fn no_filter(_config: RStr<'_>) -> RResult<FilterBox, Failure> {
    RResult::RErr(Failure::Error("it is not a filter".into()))
}

/// `Root::lister` of an extension that is none.
pub extern "C" fn no_lister(_config: RStr<'_>) -> RResult<ListerBox, Failure> {
    RResult::RErr(Failure::Error("it is not a lister".into()))
}

/// An author's value. A panic in its drop would cross the boundary.
struct Guarded<T>(ManuallyDrop<T>);

impl<T> Guarded<T> {
    fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: dropped here and nowhere else, and not used afterwards.
        let drop = AssertUnwindSafe(|| unsafe { ManuallyDrop::drop(&mut self.0) });
        if let Err(payload) = catch_unwind(drop) {
            log(4, &format!("dropping the instance: {}", panic_text(payload)));
        }
    }
}

impl<F: MessageFilter> Filter for Guarded<Ready<F>> {
    fn reads(&self) -> RString {
        self.0.reads.to_json().into()
    }

    fn judge(&mut self, batch: Batch<'_>, mut verdicts: RSliceMut<'_, u64>) -> ROption<RString> {
        let Ready { filter, reads } = &mut *self.0;
        let verdicts = verdicts.as_mut_slice();
        // Once for the batch and not for each message: after a panic, nothing of the batch counts.
        let judged = catch_unwind(AssertUnwindSafe(|| {
            for (row, verdict) in batch.messages().zip(verdicts) {
                let message = Message::new(row, Ready::<F>::READS, reads);
                let (code, delay) = encode(filter.judge(&message));
                *verdict = u64::from(code) | u64::from(delay) << 32;
            }
        }));
        match judged {
            Ok(()) => RNone,
            Err(payload) => RSome(panic_text(payload).into()),
        }
    }
}

impl<L: TopicLister> Lister for Guarded<L> {
    fn answer(&mut self, request: RStr<'_>, topics: TopicSetsRef<'_>) -> RResult<u32, Failure> {
        let sets = Sets(topics);
        caught(|| {
            let request = Request::parse(request.as_str())?;
            Ok(self.0.answer(&request, &Topics::new(&sets))?.into_handle())
        })
        .into()
    }
}

/// The host's sets, for the author's [`Topics`].
struct Sets<'a>(TopicSetsRef<'a>);

impl crate::lister::Host for Sets<'_> {
    fn all(&self) -> u32 {
        self.0.all()
    }
    fn with_property(&self, key: &str, value: &str) -> u32 {
        self.0.with_property(key.into(), value.into())
    }
    fn matching(&self, pattern: &str) -> Result<u32, Error> {
        self.0.matching(pattern.into()).into_result().map_err(Error::new)
    }
    fn named(&self, names: &str) -> Result<u32, Error> {
        self.0.named(names.into()).into_result().map_err(Error::new)
    }
    fn names(&self, of: u32, start: u32, limit: u32) -> String {
        String::from_utf8_lossy(self.0.names(of, start, limit).as_slice()).into_owned()
    }
    fn intersect(&self, one: u32, other: u32) -> Result<u32, Error> {
        self.0.intersect(one, other).into_result().map_err(Error::new)
    }
    fn unite(&self, one: u32, other: u32) -> Result<u32, Error> {
        self.0.unite(one, other).into_result().map_err(Error::new)
    }
    fn without(&self, one: u32, other: u32) -> Result<u32, Error> {
        self.0.without(one, other).into_result().map_err(Error::new)
    }
    fn forget(&self, set: u32) {
        self.0.forget(set);
    }
}

/// Runs an author's code; a panic becomes a [`Failure`].
fn caught<T>(code: impl FnOnce() -> Result<T, Error>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Failure::Error(error.into_sentence().into())),
        Err(payload) => Err(Failure::Panic(panic_text(payload).into())),
    }
}

/// What a caught panic said. Its payload may be any value of the author's, whose drop may panic too.
fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = PANIC.take();
    if catch_unwind(AssertUnwindSafe(|| drop(payload))).is_err() {
        log(4, "the value that was panicked with panicked when it was dropped");
    }
    text
}
