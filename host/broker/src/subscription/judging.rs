//! The hop: what is done with a batch of entries on a judging thread.
//!
//! Entries are opened, viewed, judged together, and those that are accepted in part are rewritten. Nothing
//! here knows cursors or consumers.

use bytes::Bytes;
use weir_filter::{Judgement, OnFailure, Outcome, Paused, Pinned, TopicName, Worker};
use weir_store::{Position, StoredEntry};

use super::naming;
use super::window::{Indexes, Judged, Parcel, Task, Wait, Want};
use crate::decoder::{DecodeError, EntryDecoder, OpenedEntry};
use crate::stats::FilterStats;

/// A call judges the messages of whole entries until they are so many: a thousand make the cost of a call
/// vanish, and what is opened at the same time stays small.
const JUDGE_MESSAGES: usize = 1024;

/// … or until they hold so many bytes unpacked: a few kilobytes may unpack to a thousand times as much.
const JUDGE_BYTES: usize = 8 * 1024 * 1024;

/// A batch that was judged, or the part of it before the chain had to pause.
pub(crate) struct Batch {
    pub judged: Vec<Judged>,
    pub tally: FilterStats,
    /// Set if the chain cannot be called: what is not in `judged` was not judged.
    pub paused: Option<Paused>,
}

/// Makes of each entry what its task wants. Without a chain everything is accepted.
pub(crate) fn judge(
    worker: &mut Worker,
    chain: Option<&Pinned>,
    decoder: &dyn EntryDecoder,
    topic: &TopicName,
    tasks: Vec<Task>,
) -> Batch {
    let mut batch =
        Batch { judged: Vec::with_capacity(tasks.len()), tally: FilterStats::default(), paused: None };
    let mut chunk: Vec<(Task, Part)> = Vec::new();
    let (mut rows, mut bytes) = (0, 0);
    for task in tasks {
        match (&task.want, chain) {
            (Want::Judge(indexes), Some(chain)) => match Part::open(decoder, &task.entry.bytes, indexes) {
                Ok(part) => {
                    rows += part.opened.len();
                    bytes += part.opened.unpacked_bytes();
                    chunk.push((task, part));
                }
                // Order does not matter between entries: each says what has become of itself.
                Err(error) => batch.failed(task, chain.on_failure(), &error),
            },
            (Want::Judge(indexes) | Want::Deliver(indexes), _) => {
                let parcel = cut(decoder, &task.entry, indexes);
                batch.judged.push(Judged::new(task, Some(parcel), Vec::new()));
            }
        }
        if (rows >= JUDGE_MESSAGES || bytes >= JUDGE_BYTES)
            && let Some(chain) = chain
        {
            if !batch.judge_chunk(worker, chain, topic, std::mem::take(&mut chunk)) {
                return batch;
            }
            (rows, bytes) = (0, 0);
        }
    }
    if let Some(chain) = chain
        && !chunk.is_empty()
    {
        batch.judge_chunk(worker, chain, topic, chunk);
    }
    batch
}

/// Everything is accepted and nothing is to be cut: no thread is needed for that.
pub(crate) fn pass(tasks: Vec<Task>) -> Vec<Judged> {
    let whole = |task: Task| {
        let parcel = Parcel {
            bytes: task.entry.bytes.clone(),
            messages: task.entry.messages,
            shape: Indexes::All,
            accepted: Indexes::All,
        };
        Judged::new(task, Some(parcel), Vec::new())
    };
    tasks.into_iter().map(whole).collect()
}

/// Whether [`pass`] will do.
pub(crate) fn is_whole(task: &Task) -> bool {
    matches!(&task.want, Want::Judge(Indexes::All) | Want::Deliver(Indexes::All))
}

impl Judged {
    fn new(task: Task, parcel: Option<Parcel>, waits: Vec<(u32, Wait)>) -> Self {
        let StoredEntry { position, messages, .. } = task.entry;
        Self { position, previous: task.previous, messages, want: task.want, parcel, waits }
    }

    /// Where it lies.
    pub(crate) fn position(&self) -> Position {
        self.position
    }
}

/// An entry cut to the messages that are asked for.
struct Part {
    opened: Box<dyn OpenedEntry>,
    bytes: Bytes,
    shape: Indexes,
}

impl Part {
    fn open(decoder: &dyn EntryDecoder, bytes: &Bytes, wanted: &Indexes) -> Result<Self, DecodeError> {
        let opened = decoder.open(bytes)?;
        let Indexes::These(these) = wanted else {
            return Ok(Self { opened, bytes: bytes.clone(), shape: Indexes::All });
        };
        let keep = mask(opened.len(), these);
        if !opened.is_batch() || keep.iter().all(|kept| *kept) {
            return Ok(Self { opened, bytes: bytes.clone(), shape: Indexes::All });
        }
        if !keep.contains(&true) {
            return Err(DecodeError(format!("it has {} messages, none of {these:?}", opened.len())));
        }
        let bytes = opened.keep(&keep)?;
        let opened = decoder.open(&bytes)?;
        let these = these.iter().copied().filter(|index| (*index as usize) < keep.len());
        Ok(Self { opened, bytes, shape: Indexes::These(these.collect()) })
    }
}

fn mask(length: usize, these: &[u32]) -> Vec<bool> {
    let mut keep = vec![false; length];
    for index in these {
        if let Some(kept) = keep.get_mut(*index as usize) {
            *kept = true;
        }
    }
    keep
}

/// Messages that were judged before, or need not be. An entry that cannot be cut goes whole: some of its
/// messages come twice then, where otherwise some would be lost.
fn cut(decoder: &dyn EntryDecoder, entry: &StoredEntry, accepted: &Indexes) -> Parcel {
    let whole = Part::open(decoder, &entry.bytes, accepted).map(|part| Parcel {
        messages: count(part.opened.len()),
        bytes: part.bytes,
        shape: part.shape,
        accepted: accepted.clone(),
    });
    match (accepted, whole) {
        (Indexes::These(_), Ok(parcel)) => parcel,
        _ => Parcel {
            bytes: entry.bytes.clone(),
            messages: entry.messages,
            shape: Indexes::All,
            accepted: accepted.clone(),
        },
    }
}

/// The longest failure that statistics keep, in bytes.
const MAX_FAILURE_BYTES: usize = 1024;

fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_FAILURE_BYTES));
    text
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Batch {
    /// Judges entries by one call; false if the chain had to pause.
    fn judge_chunk(
        &mut self,
        worker: &mut Worker,
        chain: &Pinned,
        topic: &TopicName,
        chunk: Vec<(Task, Part)>,
    ) -> bool {
        let judgement = {
            let mut messages = worker.view(chain);
            for (_, part) in &chunk {
                part.opened.view(topic, &mut messages);
            }
            let judgement = worker.judge(chain, &messages);
            worker.give_back(messages);
            judgement
        };
        let outcomes = match judgement {
            Judgement::Judged(outcomes) => outcomes,
            Judgement::Paused(paused) => {
                self.paused = Some(paused);
                return false;
            }
        };
        let mut outcomes = outcomes.into_iter();
        for (task, part) in chunk {
            let outcomes: Vec<Outcome> = outcomes.by_ref().take(part.opened.len()).collect();
            naming::name(topic, task.entry.position, &part.shape, &outcomes);
            self.judged_entry(task, &part, &outcomes, chain.on_failure());
        }
        true
    }

    fn judged_entry(&mut self, mut task: Task, part: &Part, outcomes: &[Outcome], on_failure: OnFailure) {
        let length = part.opened.len();
        if part.shape == Indexes::All {
            // What the entry really holds, whatever its producer said.
            task.entry.messages = count(length);
        }
        let mut keep = vec![false; length];
        let mut waits = Vec::new();
        // A row that has no outcome would be a bug of the chain: it is then judged again.
        for (nth, keep) in keep.iter_mut().enumerate() {
            let outcome = outcomes.get(nth);
            self.tally.count(outcome);
            let wait = match outcome {
                Some(Outcome::Accept | Outcome::Deliver(_)) => {
                    *keep = true;
                    continue;
                }
                Some(Outcome::Reject | Outcome::Discard(_)) => continue,
                Some(Outcome::Reschedule(delay)) => Wait::Reschedule(*delay),
                Some(Outcome::Withhold(_)) | None => Wait::Withhold,
            };
            waits.extend(part.shape.original(count(nth)).map(|index| (index, wait)));
        }
        let kept = keep.iter().filter(|kept| **kept).count();
        let parcel = match kept {
            0 => None,
            all if all == length => Some(Parcel {
                bytes: part.bytes.clone(),
                messages: count(length),
                shape: part.shape.clone(),
                accepted: part.shape.clone(),
            }),
            _ => {
                let originals = (0..count(length)).filter(|nth| keep[*nth as usize]);
                let shape = Indexes::These(originals.filter_map(|nth| part.shape.original(nth)).collect());
                match part.opened.keep(&keep) {
                    Ok(bytes) => {
                        Some(Parcel { bytes, messages: count(kept), accepted: shape.clone(), shape })
                    }
                    Err(error) => return self.failed(task, on_failure, &error),
                }
            }
        };
        self.judged.push(Judged::new(task, parcel, waits));
    }

    /// An entry that cannot be opened, or not written: it is delivered or withheld, as the binding says, and
    /// never acknowledged.
    fn failed(&mut self, task: Task, on_failure: OnFailure, error: &DecodeError) {
        let (Want::Judge(wanted) | Want::Deliver(wanted)) = task.want.clone();
        let indexes: Vec<u32> = match &wanted {
            Indexes::All => (0..task.entry.messages).collect(),
            Indexes::These(these) => these.to_vec(),
        };
        let n = indexes.len() as u64;
        self.tally.processed += n;
        self.tally.last_failure = Some(bounded(error.to_string()));
        let judged = match on_failure {
            OnFailure::Deliver => {
                self.tally.broke_delivered += n;
                let parcel = Parcel {
                    bytes: task.entry.bytes.clone(),
                    messages: task.entry.messages,
                    shape: Indexes::All,
                    accepted: wanted,
                };
                Judged::new(task, Some(parcel), Vec::new())
            }
            // Discarding is for a message that breaks the filter when it is judged alone. This entry was not
            // judged at all: its producer encrypts, say, and then a whole backlog would be lost unseen.
            OnFailure::Withhold | OnFailure::Discard => {
                self.tally.withheld_attempts += n;
                let waits = indexes.into_iter().map(|index| (index, Wait::Withhold)).collect();
                Judged::new(task, None, waits)
            }
        };
        self.judged.push(judged);
    }
}

impl FilterStats {
    fn count(&mut self, outcome: Option<&Outcome>) {
        self.processed += 1;
        let (counter, failure) = match outcome {
            Some(Outcome::Accept) => (&mut self.accepted, None),
            Some(Outcome::Reject) => (&mut self.rejected, None),
            Some(Outcome::Reschedule(_)) => (&mut self.rescheduled, None),
            Some(Outcome::Deliver(failure)) => (&mut self.broke_delivered, Some(failure)),
            Some(Outcome::Withhold(failure)) => (&mut self.withheld_attempts, Some(failure)),
            Some(Outcome::Discard(failure)) => (&mut self.broke_discarded, Some(failure)),
            None => (&mut self.withheld_attempts, None),
        };
        *counter += 1;
        if let Some(failure) = failure {
            self.last_failure = Some(bounded(failure.to_string()));
        }
    }
}
