//! What the fuzz targets of `testing/fuzz.rs` reach of this folder.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::Component;

use super::code::{Code, Linked};
use super::columns::Columns;
use super::filter::Judge;
use super::{Guest, Runtime, Tier};
use crate::artifact::Limits;
use crate::filter::{Broke, Verdict};
use crate::message::{Field, Mapping, Messages};

const LIMITS: Limits = Limits { deadline: Duration::from_millis(50), memory: 32 << 20 };

pub(crate) fn verdicts(answer: &[u8], n: usize, verdicts: &mut Vec<Verdict>) -> Result<(), Broke> {
    super::verdicts::read(answer, n, verdicts)
}

/// The batch that a guest is given for these messages.
pub(crate) fn batch(fields: &[Field], messages: &Messages<'_>) -> Vec<u8> {
    let rows: Vec<u32> = (0..).take(messages.len()).collect();
    let mut mapping = None;
    let mapping = Mapping::of(&mut mapping, fields, messages.fields());
    Columns::new(fields).write(messages, &rows, mapping).unwrap().to_vec()
}

/// A guest that is given batches past the host's own writer.
pub(crate) struct Raw {
    code: Arc<Code>,
    instance: Option<(Guest, Judge)>,
    /// Holds the clock.
    _runtime: Runtime,
}

impl Raw {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let runtime = Runtime::new();
        let component = Component::new(runtime.cranelift(), bytes).unwrap();
        let ticker = runtime.ticker.clone();
        let linked =
            Linked::new(&component, Tier::Cranelift, ticker, &LIMITS, crate::said::Speaker::unknown())
                .unwrap();
        Self { code: Arc::new(Code::new(linked, LIMITS)), instance: None, _runtime: runtime }
    }

    /// Has a batch judged; an instance that broke is thrown away. Gives back whether it was judged.
    pub(crate) fn judge(&mut self, batch: &[u8]) -> bool {
        let (mut guest, judge) = self.instance.take().unwrap_or_else(|| {
            let (mut guest, origin, _) = self.code.configured("{}").unwrap();
            let judge = guest.function(origin.linked.exports.judge.as_ref().unwrap(), "judge").unwrap();
            (guest, judge)
        });
        let judged = guest.call(&judge, (Arc::new(batch.to_vec()),), LIMITS.deadline).is_ok();
        if judged {
            self.instance = Some((guest, judge));
        }
        judged
    }
}
