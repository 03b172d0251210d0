//! A component that judges messages.

use std::sync::Arc;

use wasmtime::component::TypedFunc;

use super::columns::Columns;
use super::{Guest, verdicts};
use crate::artifact::Limits;
use crate::filter::{Broke, BrokeKind, MessageFilter, Verdict};
use crate::message::{Field, Mapping, Messages};

/// The batch goes in by `Arc`: its buffer is ours again after the call, and nothing is borrowed by a
/// type that has to live longer.
pub(super) type Judge = TypedFunc<(Arc<Vec<u8>>,), (Result<Vec<u8>, String>,)>;

pub(super) struct ComponentFilter {
    guest: Guest,
    judge: Judge,
    fields: Arc<[Field]>,
    columns: Columns,
    mapping: Option<Mapping>,
    limits: Limits,
    reads_payload: bool,
}

impl ComponentFilter {
    pub(super) fn new(guest: Guest, judge: Judge, fields: Arc<[Field]>, limits: Limits) -> Self {
        let reads_payload = fields.contains(&Field::Payload);
        let columns = Columns::new(&fields);
        Self { guest, judge, fields, columns, mapping: None, limits, reads_payload }
    }
}

impl MessageFilter for ComponentFilter {
    fn judge(
        &mut self,
        messages: &Messages<'_>,
        rows: &[u32],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), Broke> {
        if rows.is_empty() {
            return Ok(());
        }
        let mapping = Mapping::of(&mut self.mapping, &self.fields, messages.fields());
        let batch = self.columns.write(messages, rows, mapping)?;
        if self.reads_payload {
            let payloads = rows.iter().map(|row| messages.payload(*row).cloned());
            self.guest.store.data_mut().payloads.extend(payloads);
        }
        let deadline = self.limits.deadline_of(rows.len());
        let answer = self.guest.call(&self.judge, (batch,), deadline);
        self.guest.store.data_mut().payloads.clear();
        match answer?.0 {
            Ok(answer) => verdicts::read(&answer, rows.len(), verdicts),
            Err(reason) => Err(Broke { kind: BrokeKind::Error, reason }),
        }
    }
}
