//! Extensions: user code that decides which topics a client may see and which messages a
//! subscription gets.
//!
//! This room loads artifacts, keeps the table of what is in force, and calls it. It leaves to others
//! what a verdict means for a subscription (`weir-filter`), which topics there are (`weir-listing`)
//! and how bytes arrive (`weir`).
//!
//! Reading order: the nouns ([`names`], [`message`]), the two traits ([`filter`], [`lister`]), the one
//! door and its table ([`extensions`]), what is dropped into a folder ([`watch`]), what is built in
//! ([`builtin`]).

mod artifact;
pub mod builtin;
mod child;
mod compiled;
mod component;
pub mod extensions;
pub mod filter;
mod frame;
pub mod lister;
pub mod message;
pub mod names;
mod native;
mod said;
#[cfg(test)]
mod testing;
pub mod watch;

#[doc(hidden)]
pub use artifact::{FilterAndFields, opened};
pub use artifact::{Limits, LoaderFigures, LoaderOptions};
pub use builtin::Builtin;
pub use child::{CHILD, ChildCommand, child_main};
pub use extensions::{
    ClassConfig, ClassName, ClassOptions, ConfigError, Configured, Counts, ExtensionInfo, Extensions, Form,
    Inspection, KeptVersion, Key, Kind, MAX_CONFIG_BYTES, Options, RefusedFile, RegisterError, Registered,
    RemoveError, RollbackError, RolledBack, Scope, Source, TakenBackVersion, Tally, Times, Trial, TrialInfo,
    TrialRule, Unavailable,
};
pub use filter::{Broke, BrokeKind, Delay, MessageFilter, Verdict};
pub use lister::{ListRequest, Mode, TopicLister, TopicSet, Topics};
pub use message::{Cell, Field, Messages, Row};
pub use names::{Domain, NameError, NamespaceName, TopicName};
pub use said::{Level, LogFigures, LogLine, Overtaken, last_lines, last_words, lines_after, log_figures};
pub use watch::{WatchOptions, Watcher};
