//! The trait of everything that answers which topics a client may see. It works on sets, so that an
//! answer over ten million topics makes no name.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::verdict::Error;

/// Answers which topics a client may see.
///
/// An instance belongs to one worker of the host, and is called by one thread at a time; what it remembers
/// is a cache. It may take its time (ask a database, say): it has a deadline and a pool of its own.
pub trait TopicLister: Sized + Send + 'static {
    /// Its configuration; `()` if it has none.
    type Config: Config;

    /// The name that it is chosen by: letters, digits and `._-`, as `com.example.TenantLister`.
    const CLASS: &'static str;

    /// Makes an instance.
    ///
    /// # Errors
    /// When it cannot work with this configuration: the sentence is shown to whoever set it.
    fn new(config: Self::Config) -> Result<Self, Error>;

    /// The topics that this client may see; there may be none.
    ///
    /// # Errors
    /// When it cannot be answered. The client gets an error then, never a list: it would unsubscribe
    /// from what is missing.
    fn answer<'t>(&mut self, request: &Request, topics: &Topics<'t>) -> Result<Set<'t>, Error>;
}

/// What a lister is asked.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[non_exhaustive]
pub struct Request {
    /// The namespace whose topics are asked for: `tenant/namespace`.
    pub namespace: String,
    /// The domains that are asked for.
    pub mode: Mode,
    /// What the client says of itself; may be empty.
    pub properties: BTreeMap<String, String>,
}

/// Which domains a listing covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Mode {
    /// `persistent://` only.
    Persistent,
    /// `non-persistent://` only.
    NonPersistent,
    /// Both.
    All,
}

impl Request {
    // Keys that a later minor adds are not read, and disturb nobody.
    pub(crate) fn parse(json: &str) -> Result<Self, Error> {
        Ok(serde_json::from_str(json)?)
    }
}

/// The host's side of an answer, in either form. Sets are handles; names are separated by line feeds.
pub(crate) trait Host {
    fn all(&self) -> u32;
    fn with_property(&self, key: &str, value: &str) -> u32;
    fn matching(&self, pattern: &str) -> Result<u32, Error>;
    fn named(&self, names: &str) -> Result<u32, Error>;
    fn names(&self, of: u32, start: u32, limit: u32) -> String;
    fn intersect(&self, one: u32, other: u32) -> Result<u32, Error>;
    fn unite(&self, one: u32, other: u32) -> Result<u32, Error>;
    fn without(&self, one: u32, other: u32) -> Result<u32, Error>;
    fn forget(&self, set: u32);
}

/// The topics of a request's namespace and mode, as one snapshot.
pub struct Topics<'a> {
    host: &'a dyn Host,
}

/// A set of topics: a handle of the host's. Combining two costs microseconds, whatever their size.
///
/// Base topics are the unit: the partitions of a topic follow it.
pub struct Set<'a> {
    host: &'a dyn Host,
    handle: u32,
}

impl<'a> Topics<'a> {
    pub(crate) fn new(host: &'a dyn Host) -> Self {
        Self { host }
    }

    /// All of them.
    pub fn all(&self) -> Set<'a> {
        self.set(self.host.all())
    }

    /// Those that have this property with this value.
    pub fn with_property(&self, key: &str, value: &str) -> Set<'a> {
        self.set(self.host.with_property(key, value))
    }

    /// Those whose whole name, without its domain, matches a regular expression. A set from a literal
    /// prefix and `.*` costs nothing; others are compared name by name.
    ///
    /// # Errors
    /// When it is no regular expression.
    pub fn matching(&self, pattern: &str) -> Result<Set<'a>, Error> {
        Ok(self.set(self.host.matching(pattern)?))
    }

    /// A set of names of the lister's own: full names, `persistent://tenant/namespace/topic`. They need
    /// not be topics of the snapshot; foreign ones are dropped from the answer.
    ///
    /// # Errors
    /// When there are more than the host takes, or a name holds a line feed.
    pub fn named<N: AsRef<str>>(&self, names: &[N]) -> Result<Set<'a>, Error> {
        if let Some(bad) = names.iter().find(|n| n.as_ref().contains('\n')) {
            return Err(Error::new(format_args!("{:?} is no topic: it holds a line feed", bad.as_ref())));
        }
        let mut joined = String::new();
        for (i, name) in names.iter().enumerate() {
            if i > 0 {
                joined.push('\n');
            }
            joined.push_str(name.as_ref());
        }
        Ok(self.set(self.host.named(&joined)?))
    }

    fn set(&self, handle: u32) -> Set<'a> {
        Set { host: self.host, handle }
    }
}

impl Set<'_> {
    /// Topics in both sets.
    ///
    /// # Errors
    /// When the host holds too many sets of this answer already.
    pub fn intersect(&self, other: &Self) -> Result<Self, Error> {
        Ok(Self { host: self.host, handle: self.host.intersect(self.handle, other.handle)? })
    }

    /// Topics in either set.
    ///
    /// # Errors
    /// As [`intersect`](Self::intersect).
    pub fn unite(&self, other: &Self) -> Result<Self, Error> {
        Ok(Self { host: self.host, handle: self.host.unite(self.handle, other.handle)? })
    }

    /// Topics in this set and not in the other.
    ///
    /// # Errors
    /// As [`intersect`](Self::intersect).
    pub fn without(&self, other: &Self) -> Result<Self, Error> {
        Ok(Self { host: self.host, handle: self.host.without(self.handle, other.handle)? })
    }

    /// Its full names, in order: at most `limit` from the `start`th on. Reading names costs what sets
    /// save, so it is for small sets.
    pub fn names(&self, start: u32, limit: u32) -> Vec<String> {
        let joined = self.host.names(self.handle, start, limit);
        if joined.is_empty() { Vec::new() } else { joined.split('\n').map(str::to_owned).collect() }
    }

    /// The handle, which is no longer ours.
    pub(crate) fn into_handle(self) -> u32 {
        let handle = self.handle;
        // Its drop would have the host forget the set.
        let _kept = std::mem::ManuallyDrop::new(self);
        handle
    }
}

impl Drop for Set<'_> {
    fn drop(&mut self) {
        self.host.forget(self.handle);
    }
}

impl std::fmt::Debug for Set<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Set").field(&self.handle).finish()
    }
}
