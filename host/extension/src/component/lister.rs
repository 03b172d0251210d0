//! A component that answers listings, and the sets that it works on.

use std::sync::Arc;

use wasmtime::component::{LinkerInstance, Resource, ResourceTableError, ResourceType, TypedFunc};
use wasmtime::{StoreContextMut, bail};

use super::code::{Code, Origin};
use super::imports::State;
use super::limits::TOO_MANY_SETS;
use super::{Guest, cut};
use crate::filter::{Broke, BrokeKind};
use crate::lister::{ListRequest, TopicLister, TopicSet, Topics};

/// How many names [`Topics::names`] is asked for at once, whatever the guest asks: each may have some
/// thousand bytes, and a guest that wants all of them asks again.
const NAMES_AT_ONCE: u32 = 4096;

pub(super) type Answer = TypedFunc<(String,), (Result<Resource<Set>, String>,)>;

/// A set that a guest has a handle of. A guest may keep handles: one from an earlier answer speaks of
/// another snapshot, and its ranks would name the wrong topics.
pub(super) struct Set {
    topics: TopicSet,
    answer: u64,
    bytes: usize,
}

/// What sets are made of while an answer is worked on.
#[derive(Default)]
pub(super) struct Sets {
    topics: Option<Arc<dyn Topics>>,
    answer: u64,
    /// What the sets that there are handles of take in weir's own memory.
    bytes: usize,
}

/// What a name takes beside its bytes, in a set.
const NAME_OVERHEAD: usize = 48;

/// What a set takes, about; parts that it shares with others are counted in each.
fn bytes_of(set: &TopicSet) -> usize {
    let names: usize = set.names.iter().map(|name| name.len() + NAME_OVERHEAD).sum();
    set.ranks.serialized_size() + names
}

pub(super) struct ComponentLister {
    guest: Guest,
    answer: Answer,
    origin: Origin,
}

impl ComponentLister {
    pub(super) fn new(code: &Arc<Code>, config: &str) -> Result<Self, Broke> {
        let (mut guest, origin, _) = code.configured(config)?;
        let Some(answer) = &origin.linked.exports.answer else {
            return Err(Broke { kind: BrokeKind::Error, reason: format!("{} is no lister", code.class()) });
        };
        let answer = guest.function(answer, "answer")?;
        Ok(Self { guest, answer, origin })
    }
}

impl TopicLister for ComponentLister {
    fn answer(&mut self, request: &ListRequest, topics: &Arc<dyn Topics>) -> Result<TopicSet, Broke> {
        if self.origin.is_superseded()
            && let Some(better) = self.origin.better(Self::new)
        {
            *self = better;
        }
        let broke = |kind: BrokeKind, reason: String| Broke { kind, reason };
        let request = serde_json::to_string(request)
            .map_err(|error| broke(BrokeKind::Error, format!("the request cannot be written: {error}")))?;
        let sets = &mut self.guest.store.data_mut().sets;
        sets.topics = Some(topics.clone());
        sets.answer += 1;
        let answer = self.guest.call(&self.answer, (request,), self.origin.code.limits().deadline);
        let state = self.guest.store.data_mut();
        state.sets.topics = None;
        let set = answer?.0.map_err(|reason| broke(BrokeKind::Error, cut(&reason)))?;
        let set = state
            .drop_set(set)
            .map_err(|error| broke(BrokeKind::BadAnswer, format!("it answered with no set: {error}")))?;
        if set.answer != state.sets.answer {
            return Err(broke(BrokeKind::BadAnswer, "it answered with a set of an earlier answer".into()));
        }
        Ok(set.topics)
    }
}

type Context<'a> = StoreContextMut<'a, State>;

impl State {
    fn topics(&self) -> wasmtime::Result<Arc<dyn Topics>> {
        match &self.sets.topics {
            Some(topics) => Ok(topics.clone()),
            None => bail!("topics can only be asked for while a listing is answered"),
        }
    }

    fn push(&mut self, topics: TopicSet) -> wasmtime::Result<Resource<Set>> {
        let (answer, bytes) = (self.sets.answer, bytes_of(&topics));
        let limit = self.limiter.limit();
        if self.sets.bytes + bytes > limit {
            bail!("{TOO_MANY_SETS} more than {limit} bytes");
        }
        self.sets.bytes += bytes;
        Ok(self.table.push(Set { topics, answer, bytes })?)
    }

    fn drop_set(&mut self, handle: Resource<Set>) -> Result<Set, ResourceTableError> {
        let set = self.table.delete(handle)?;
        self.sets.bytes -= set.bytes;
        Ok(set)
    }

    /// As [`push`](Self::push); a sentence for the guest is handed on.
    fn pushed(&mut self, found: Result<TopicSet, String>) -> wasmtime::Result<Result<Resource<Set>, String>> {
        match found {
            Ok(topics) => self.push(topics).map(Ok),
            Err(sentence) => Ok(Err(sentence)),
        }
    }

    fn set(&self, handle: &Resource<Set>) -> wasmtime::Result<&TopicSet> {
        let set = self.table.get(handle)?;
        if set.answer != self.sets.answer {
            bail!("a topic set of an earlier answer was used");
        }
        Ok(&set.topics)
    }
}

/// Defines `weir:extension/topics`.
pub(super) fn topics(instance: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    instance.resource("set", ResourceType::host::<Set>(), |mut context, rep| {
        context.data_mut().drop_set(Resource::<Set>::new_own(rep))?;
        Ok(())
    })?;
    type Operation = fn(&TopicSet, &TopicSet) -> TopicSet;
    let operations: [(&str, Operation); 3] = [
        ("[method]set.intersect", TopicSet::intersect),
        ("[method]set.unite", TopicSet::unite),
        ("[method]set.without", TopicSet::without),
    ];
    for (name, operation) in operations {
        instance.func_wrap(
            name,
            move |mut context: Context<'_>, (one, other): (Resource<Set>, Resource<Set>)| {
                let state = context.data_mut();
                let made = operation(state.set(&one)?, state.set(&other)?);
                Ok((Ok::<_, String>(state.push(made)?),))
            },
        )?;
    }
    instance.func_wrap("all", |mut context: Context<'_>, (): ()| {
        let state = context.data_mut();
        let all = state.topics()?.all();
        Ok((state.push(all)?,))
    })?;
    instance.func_wrap("with-property", |mut context: Context<'_>, (key, value): (String, String)| {
        let state = context.data_mut();
        let found = state.topics()?.with_property(&key, &value);
        Ok((state.push(found)?,))
    })?;
    instance.func_wrap("matching", |mut context: Context<'_>, (pattern,): (String,)| {
        let state = context.data_mut();
        let found = state.topics()?.matching(&pattern);
        Ok((state.pushed(found)?,))
    })?;
    instance.func_wrap("named", |mut context: Context<'_>, (names,): (Vec<u8>,)| {
        let state = context.data_mut();
        let found = match std::str::from_utf8(&names) {
            Ok(names) => {
                let names: Vec<&str> = names.split('\n').filter(|name| !name.is_empty()).collect();
                state.topics()?.named(&names)
            }
            Err(error) => Err(format!("the names are not UTF-8: {error}")),
        };
        Ok((state.pushed(found)?,))
    })?;
    instance.func_wrap("names", |context: Context<'_>, (of, start, limit): (Resource<Set>, u32, u32)| {
        let state = context.data();
        let limit = limit.min(NAMES_AT_ONCE) as usize;
        let names = state.topics()?.names(state.set(&of)?, start as usize, limit);
        Ok((names.join("\n").into_bytes(),))
    })
}
