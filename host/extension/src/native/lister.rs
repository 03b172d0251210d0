//! A native library that answers listings, and the sets that it works on.

use std::cell::RefCell;
use std::sync::Arc;

use abi_stable::sabi_trait::TD_Opaque;
use abi_stable::std_types::{RErr, ROk, RResult, RStr, RString, RVec};
use weir_plugin_api::native::v1_0::TopicSets_TO;
use weir_plugin_api::native::{Failure, ListerBox, TopicSets};

use super::broke;
use crate::filter::{Broke, BrokeKind};
use crate::lister::{ListRequest, TopicLister, TopicSet, Topics};

/// The most sets that one answer may make.
const MAX_SETS: usize = 10_000;

/// How many names a lister gets at once, whatever it asks: one that wants all of them asks again.
const NAMES_AT_ONCE: u32 = 4096;

/// The handle that stands for no set: the next use of it is an error.
const NO_SET: u32 = u32::MAX;

pub(super) struct NativeLister {
    lister: ListerBox,
    /// After a panic its state is in pieces.
    broken: Option<Broke>,
}

impl NativeLister {
    pub(super) fn new(lister: ListerBox) -> Self {
        Self { lister, broken: None }
    }
}

impl TopicLister for NativeLister {
    fn answer(&mut self, request: &ListRequest, topics: &Arc<dyn Topics>) -> Result<TopicSet, Broke> {
        if let Some(Broke { kind, reason }) = &self.broken {
            let reason = format!("this instance broke before and must be thrown away: {reason}");
            return Err(Broke { kind: *kind, reason });
        }
        let request = serde_json::to_string(request).map_err(|error| Broke {
            kind: BrokeKind::Error,
            reason: format!("the request cannot be written: {error}"),
        })?;
        let sets = Sets { topics: topics.clone(), made: RefCell::default() };
        let borrowed = TopicSets_TO::from_ptr(&sets, TD_Opaque);
        match self.lister.answer(request.as_str().into(), borrowed) {
            ROk(handle) => sets.get(handle).map_err(|error| Broke {
                kind: BrokeKind::BadAnswer,
                reason: format!("it answered with no set: {error}"),
            }),
            RErr(failure) => {
                let panicked = matches!(failure, Failure::Panic(_));
                let broke = broke(failure);
                self.broken = panicked.then(|| broke.clone());
                Err(broke)
            }
        }
    }
}

/// The sets of one answer, by their handles.
struct Sets {
    topics: Arc<dyn Topics>,
    made: RefCell<Vec<Option<TopicSet>>>,
}

impl Sets {
    fn get(&self, handle: u32) -> Result<TopicSet, RString> {
        let made = self.made.borrow();
        let set = made.get(handle as usize).cloned().flatten();
        set.ok_or_else(|| format!("there is no topic set {handle}, or more than {MAX_SETS} were made").into())
    }

    fn push(&self, set: TopicSet) -> Result<u32, RString> {
        let mut made = self.made.borrow_mut();
        // Forgotten ones at the end make room: an author's temporary sets are forgotten in that order.
        while made.pop_if(|last| last.is_none()).is_some() {}
        if made.len() >= MAX_SETS {
            return Err(format!("more than {MAX_SETS} topic sets are held").into());
        }
        made.push(Some(set));
        Ok(u32::try_from(made.len() - 1).unwrap_or(NO_SET))
    }

    fn combine(
        &self,
        one: u32,
        other: u32,
        operation: fn(&TopicSet, &TopicSet) -> TopicSet,
    ) -> RResult<u32, RString> {
        let pair = self.get(one).and_then(|one| Ok((one, self.get(other)?)));
        pair.and_then(|(one, other)| self.push(operation(&one, &other))).into()
    }
}

impl TopicSets for Sets {
    fn all(&self) -> u32 {
        self.push(self.topics.all()).unwrap_or(NO_SET)
    }

    fn with_property(&self, key: RStr<'_>, value: RStr<'_>) -> u32 {
        self.push(self.topics.with_property(key.as_str(), value.as_str())).unwrap_or(NO_SET)
    }

    fn matching(&self, pattern: RStr<'_>) -> RResult<u32, RString> {
        self.topics.matching(pattern.as_str()).map_err(RString::from).and_then(|set| self.push(set)).into()
    }

    fn named(&self, names: RStr<'_>) -> RResult<u32, RString> {
        let names: Vec<&str> = names.as_str().split('\n').filter(|name| !name.is_empty()).collect();
        self.topics.named(&names).map_err(RString::from).and_then(|set| self.push(set)).into()
    }

    fn names(&self, of: u32, start: u32, limit: u32) -> RVec<u8> {
        let set = self.get(of).unwrap_or_default();
        let limit = limit.min(NAMES_AT_ONCE) as usize;
        self.topics.names(&set, start as usize, limit).join("\n").into_bytes().into()
    }

    fn intersect(&self, one: u32, other: u32) -> RResult<u32, RString> {
        self.combine(one, other, TopicSet::intersect)
    }

    fn unite(&self, one: u32, other: u32) -> RResult<u32, RString> {
        self.combine(one, other, TopicSet::unite)
    }

    fn without(&self, one: u32, other: u32) -> RResult<u32, RString> {
        self.combine(one, other, TopicSet::without)
    }

    fn forget(&self, set: u32) {
        if let Some(set) = self.made.borrow_mut().get_mut(set as usize) {
            *set = None;
        }
    }
}
