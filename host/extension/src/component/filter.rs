//! A component that judges messages.

use std::sync::Arc;

use wasmtime::component::TypedFunc;

use super::code::{Code, Origin};
use super::columns::Columns;
use super::{Guest, cut, verdicts};
use crate::artifact::Limits;
use crate::filter::{Broke, BrokeKind, MessageFilter, Verdict};
use crate::message::{Field, Mapping, Messages};

/// The batch goes in by `Arc`: its buffer is ours again after the call, and nothing is borrowed by a
/// type that has to live longer.
pub(super) type Judge = TypedFunc<(Arc<Vec<u8>>,), (Result<Vec<u8>, String>,)>;

pub(super) struct ComponentFilter {
    made: Made,
    fields: Arc<[Field]>,
    columns: Columns,
    mapping: Option<Mapping>,
    limits: Limits,
    reads_payload: bool,
}

/// An instance, and what it is made from.
struct Made {
    guest: Guest,
    judge: Judge,
    origin: Origin,
}

impl Made {
    fn new(code: &Arc<Code>, config: &str, fields: &[Field]) -> Result<Self, Broke> {
        let (mut guest, origin, found) = code.configured(config)?;
        if found != fields {
            return Err(Broke {
                kind: BrokeKind::BadAnswer,
                reason: "it reads other fields than it did with this configuration before".into(),
            });
        }
        let Some(judge) = &origin.linked.exports.judge else {
            return Err(Broke { kind: BrokeKind::Error, reason: format!("{} is no filter", code.class()) });
        };
        let judge = guest.function(judge, "judge")?;
        Ok(Self { guest, judge, origin })
    }
}

impl ComponentFilter {
    pub(super) fn new(code: &Arc<Code>, config: &str, fields: &Arc<[Field]>) -> Result<Self, Broke> {
        Ok(Self {
            made: Made::new(code, config, fields)?,
            fields: fields.clone(),
            columns: Columns::new(fields),
            mapping: None,
            limits: code.limits(),
            reads_payload: fields.contains(&Field::Payload),
        })
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
        let Self { made, fields, .. } = self;
        if made.origin.is_superseded()
            && let Some(better) = made.origin.better(|code, config| Made::new(code, config, fields))
        {
            *made = better;
        }
        let Made { guest, judge, .. } = &mut self.made;
        let mapping = Mapping::of(&mut self.mapping, &self.fields, messages.fields());
        let batch = self.columns.write(messages, rows, mapping)?;
        if self.reads_payload {
            let payloads = rows.iter().map(|row| messages.payload(*row).cloned());
            guest.store.data_mut().payloads.extend(payloads);
        }
        let deadline = self.limits.deadline_of(rows.len());
        let answer = guest.call(judge, (batch,), deadline);
        guest.store.data_mut().payloads.clear();
        match answer?.0 {
            Ok(answer) => verdicts::read(&answer, rows.len(), verdicts),
            Err(reason) => Err(Broke { kind: BrokeKind::Error, reason: cut(&reason) }),
        }
    }
}
