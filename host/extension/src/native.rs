//! Native libraries: opened for good, called through the frozen contract of their minor.
//!
//! What runs here is trusted: a library's constructors run as it is opened, whatever its type says, and
//! nothing ends a loop of its code. The edge is guarded all the same: `abi_stable` compares both sides'
//! types before a function is called, and the SDK catches panics on the library's side.
//!
//! `library.rs` opens them, and `rehearsal.rs` has a child do so first. No type of abi_stable leaves this file and its folder.

use std::sync::Arc;

use abi_stable::std_types::{RErr, ROk, RResult, RSlice, RSliceMut, RSome, RStr, RString};
use parking_lot::RwLock;
use tracing::debug;
use weir_plugin_api::native::{Batch, Failure, FilterBox, Host, Payloads, Slot};

use crate::artifact::{Description, Loaded, OpenError, fields_of};
use crate::extensions::Kind;
use crate::filter::{Broke, BrokeKind, Delay, MessageFilter, Verdict};
use crate::lister::TopicLister;
use crate::message::{Field, Mapping, Messages};
use crate::said::{self, Speaker};

mod library;
mod lister;
mod rehearsal;

#[cfg(test)]
mod tests;

pub(crate) use library::Libraries;
use library::Library;
pub(crate) use rehearsal::rehearse;

/// Who libraries are in their log lines, by the context that each was given. Grows with the libraries.
static LOGGED_AS: RwLock<Vec<Speaker>> = RwLock::new(Vec::new());

/// What libraries write to. Levels as in `wit/weir.wit`.
extern "C" fn log(context: u64, level: u8, text: RStr<'_>) {
    let speaker = usize::try_from(context).ok().and_then(|at| LOGGED_AS.read().get(at).cloned());
    said::log(&speaker.unwrap_or_else(Speaker::unknown), level, text.as_str());
}

/// An opened library that has described itself.
pub(crate) struct Extension {
    description: Description,
    library: Library,
}

impl Extension {
    /// Starts a library and asks it what it is.
    ///
    /// # Errors
    /// When its description is not what the contract asks for.
    pub(crate) fn open(library: Library) -> Result<Self, OpenError> {
        let context = {
            let mut names = LOGGED_AS.write();
            names.push(Speaker::unknown());
            names.len() - 1
        };
        (library.start)(Host { context: context as u64, log });
        let description = Description::parse((library.describe)().as_str())?;
        LOGGED_AS.write()[context] = Speaker::new(description.class.as_str(), &description.version);
        debug!(class = %description.class, contract = library.version, "native library described");
        Ok(Self { description, library })
    }
}

impl Loaded for Extension {
    fn description(&self) -> &Description {
        &self.description
    }

    fn configure(&self, config: &str) -> Result<Vec<Field>, Broke> {
        if !self.description.kinds.contains(&Kind::Filter) {
            return self.lister(config).map(|_| Vec::new());
        }
        let filter = (self.library.filter)(config.into()).into_result().map_err(broke)?;
        fields_of(filter.reads().as_str())
    }

    fn filter(&self, config: &str, fields: &Arc<[Field]>) -> Result<Box<dyn MessageFilter>, Broke> {
        let filter = (self.library.filter)(config.into()).into_result().map_err(broke)?;
        if fields_of(filter.reads().as_str())? != **fields {
            return Err(Broke {
                kind: BrokeKind::BadAnswer,
                reason: "it reads other fields than it did with this configuration before".into(),
            });
        }
        Ok(Box::new(NativeFilter {
            filter,
            fields: fields.clone(),
            mapping: None,
            words: Vec::new(),
            broken: None,
        }))
    }

    fn lister(&self, config: &str) -> Result<Box<dyn TopicLister>, Broke> {
        let lister = (self.library.lister)(config.into()).into_result().map_err(broke)?;
        Ok(Box::new(lister::NativeLister::new(lister)))
    }
}

fn broke(failure: Failure) -> Broke {
    match failure {
        Failure::Error(reason) => Broke { kind: BrokeKind::Error, reason: reason.into() },
        Failure::Panic(reason) => Broke { kind: BrokeKind::Panic, reason: reason.into() },
    }
}

struct NativeFilter {
    filter: FilterBox,
    fields: Arc<[Field]>,
    mapping: Option<Mapping>,
    /// What the library answered to the last batch.
    words: Vec<u64>,
    /// After a panic its state is in pieces.
    broken: Option<Broke>,
}

impl MessageFilter for NativeFilter {
    fn judge(
        &mut self,
        messages: &Messages<'_>,
        rows: &[u32],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), Broke> {
        if let Some(Broke { kind, reason }) = &self.broken {
            let reason = format!("this instance broke before and must be thrown away: {reason}");
            return Err(Broke { kind: *kind, reason });
        }
        if rows.is_empty() {
            return Ok(());
        }
        let mapping = Mapping::of(&mut self.mapping, &self.fields, messages.fields());
        self.words.clear();
        self.words.resize(rows.len(), 0);
        let words = RSliceMut::from_mut_slice(&mut self.words);
        let panicked = match mapping.complete() {
            Some(columns) => {
                let payloads = Given { messages, rows: None };
                let stride = messages.fields().len();
                let batch = Batch::new(messages.all_cells(), stride, columns, rows, &payloads);
                self.filter.judge(batch, words)
            }
            None => {
                // A field that the batch has no cells for: a view of our own, in which it is missing.
                let cells = gather(messages, rows, mapping);
                let columns: Vec<u16> = (0..).take(self.fields.len()).collect();
                let all: Vec<u32> = (0..).take(rows.len()).collect();
                let payloads = Given { messages, rows: Some(rows) };
                let batch = Batch::new(&cells, self.fields.len(), &columns, &all, &payloads);
                self.filter.judge(batch, words)
            }
        };
        if let RSome(reason) = panicked {
            let broke = Broke { kind: BrokeKind::Panic, reason: reason.into() };
            self.broken = Some(broke.clone());
            return Err(broke);
        }
        read(&self.words, verdicts)
    }
}

fn gather<'m>(messages: &'m Messages<'_>, rows: &[u32], mapping: &Mapping) -> Vec<Slot<'m>> {
    let mut cells = Vec::with_capacity(rows.len() * mapping.columns().len());
    for row in rows {
        let row = messages.cells(*row);
        cells.extend(mapping.columns().map(|column| column.map_or(Slot::MISSING, |column| row[column])));
    }
    cells
}

/// The payloads of a batch. They are not in the view: it borrows from the entry, and they own.
struct Given<'m> {
    messages: &'m Messages<'m>,
    /// Where the view's rows lie in the batch, if they are not the batch's own.
    rows: Option<&'m [u32]>,
}

impl Payloads for Given<'_> {
    fn payload(&self, row: u32) -> RResult<RSlice<'_, u8>, RString> {
        let row = self.rows.map_or(Some(row), |rows| rows.get(row as usize).copied());
        match row.and_then(|row| self.messages.payload(row)) {
            Some(payload) => ROk(payload[..].into()),
            None => {
                RErr("the message has no payload, or payload is not among the fields that are read".into())
            }
        }
    }
}

/// Reads a library's answer; on an error `verdicts` is as it was.
fn read(words: &[u64], verdicts: &mut Vec<Verdict>) -> Result<(), Broke> {
    // The bits of all codes: above 3 if one of them is, and at most 1 if all of them are. As a fold over
    // all words, not up to the first bad one, this becomes a few vector instructions.
    let bits = words.iter().fold(0, |bits, word| bits | word) & 0xff;
    if bits > 3 {
        let reason = "it answered with a verdict that is not 0 to 3".into();
        return Err(Broke { kind: BrokeKind::BadAnswer, reason });
    }
    if bits <= 1 {
        // Nearly all answers are yes or no, and among these two no branch is mispredicted.
        let yes_or_no = |word: &u64| if word & 0xff == 0 { Verdict::Accept } else { Verdict::Reject };
        verdicts.extend(words.iter().map(yes_or_no));
        return Ok(());
    }
    verdicts.extend(words.iter().map(|word| match word & 0xff {
        0 => Verdict::Accept,
        1 => Verdict::Reject,
        2 => Verdict::Reschedule(Delay::from_millis((word >> 32) as u32)),
        _ => Verdict::Broke,
    }));
    Ok(())
}
