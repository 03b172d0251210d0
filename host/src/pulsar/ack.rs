//! ACK and REDELIVER_UNACKNOWLEDGED_MESSAGES.

use tracing::{debug, warn};
use weir_broker::{Ack, AckKind, Position};
use weir_wire::pulsar::ack_set;
use weir_wire::pulsar::command::{
    AckType, CommandAck, CommandAckResponse, CommandRedeliverUnacknowledgedMessages, MessageIdData,
};

use super::connection::{Connection, Ended};
use super::errors::Refused;
use super::frames;

impl Connection<'_> {
    /// Answers if, and only if, there is a request id. A consumer that is not there was closed while this
    /// was under way; what it acknowledged will be delivered again.
    pub(super) async fn acknowledge(&self, request: CommandAck) -> Result<(), Ended> {
        if request.txnid_least_bits() != 0 || request.txnid_most_bits() != 0 {
            let text = "transactions are not served";
            return self
                .ack_response(
                    &request,
                    Some(Refused::new(weir_wire::pulsar::ServerError::NotAllowedError, text)),
                )
                .await;
        }
        let kind = match request.ack_type() {
            AckType::Individual => AckKind::Individual,
            AckType::Cumulative if request.message_id.len() == 1 => AckKind::Cumulative,
            AckType::Cumulative => {
                let n = request.message_id.len();
                return Err(Ended::Violation(format!(
                    "a cumulative ACK came with {n} message ids, expected one"
                )));
            }
        };
        let Some(consuming) = self.consumers.get(&request.consumer_id) else {
            debug!(consumer = request.consumer_id, "ACK for a consumer that is not there");
            return self.ack_response(&request, None).await;
        };
        if let Some(error) = request.validation_error {
            warn!(topic = %consuming.topic, error, "a client could not read a message and acknowledges it");
        }
        let acks: Vec<Ack> = request.message_id.iter().map(ack).collect();
        let acknowledged = consuming.consumer.acknowledge(kind, &acks);
        let response = answer(&request, None);
        if request.request_id.is_some() {
            let answered = async move {
                Some(match acknowledged.await {
                    Ok(()) => frames::simple(response),
                    Err(error) => frames::simple(with_error(response, Refused::from(error))),
                })
            };
            return Ok(self.answers.push(answered).await?);
        }
        let written = async move {
            if let Err(error) = acknowledged.await {
                warn!(%error, "an acknowledgement could not be written; its messages will come again after a restart");
            }
            None
        };
        Ok(self.acks.push(written).await?)
    }

    async fn ack_response(&self, request: &CommandAck, refused: Option<Refused>) -> Result<(), Ended> {
        match request.request_id {
            Some(_) => Ok(self.answers.answer(frames::simple(answer(request, refused))).await?),
            None => Ok(()),
        }
    }

    /// No ids: everything that the consumer has not acknowledged.
    pub(super) fn redeliver(&self, request: &CommandRedeliverUnacknowledgedMessages) {
        let Some(consuming) = self.consumers.get(&request.consumer_id) else { return };
        let positions: Vec<Position> = request.message_ids.iter().map(position).collect();
        consuming.consumer.redeliver((!positions.is_empty()).then_some(&positions[..]));
    }
}

fn position(id: &MessageIdData) -> Position {
    Position { ledger: id.ledger_id, entry: id.entry_id }
}

/// An ack set names what is *not* acknowledged; none, or one of zeros, acknowledges the whole entry.
fn ack(id: &MessageIdData) -> Ack {
    let batch_size = id.batch_size.and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
    // The set itself bounds the work, whatever size the client claims.
    let bits = u32::try_from(id.ack_set.len().saturating_mul(64)).unwrap_or(u32::MAX);
    let unacked = ack_set::unacked(&id.ack_set, batch_size.map_or(bits, |size| size.min(bits)));
    Ack { position: position(id), unacked: (!unacked.is_empty()).then_some(unacked), batch_size }
}

fn answer(request: &CommandAck, refused: Option<Refused>) -> CommandAckResponse {
    let response = CommandAckResponse {
        consumer_id: request.consumer_id,
        request_id: request.request_id,
        ..CommandAckResponse::default()
    };
    match refused {
        Some(refused) => with_error(response, refused),
        None => response,
    }
}

fn with_error(mut response: CommandAckResponse, refused: Refused) -> CommandAckResponse {
    response.error = Some(refused.code as i32);
    response.message = Some(refused.text);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[i64], batch_size: Option<i32>, unacked: Option<&[u32]>) {
        let id = MessageIdData {
            ledger_id: 1,
            entry_id: 2,
            ack_set: words.to_vec(),
            batch_size,
            ..MessageIdData::default()
        };
        assert_eq!(ack(&id).unacked.as_deref(), unacked);
    }

    #[test]
    fn an_ack_set_names_what_is_left() {
        check(&[0b110], Some(3), Some(&[1, 2]));
        check(&[0b110], None, Some(&[1, 2]));
        check(&[], Some(3), None);
        check(&[0], Some(3), None);
    }

    #[test]
    fn a_claimed_size_costs_nothing() {
        check(&[1], Some(i32::MAX), Some(&[0]));
        check(&[1], Some(-1), Some(&[0]));
    }
}
