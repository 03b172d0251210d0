//! SEND: an entry is checked, handed to the broker, and gets its receipt once it is durable.

use std::sync::Arc;

use bytes::Bytes;
use weir_broker::{BrokerError, Published};
use weir_wire::pulsar::ServerError;
use weir_wire::pulsar::command::{CommandSend, CommandSendError, CommandSendReceipt, MessageIdData};
use weir_wire::pulsar::entry::{Entry, EntryError, verify_checksum};

use super::connection::{Connection, Ended};
use super::errors::Refused;
use super::frames;
use super::outbox::{Closed, Outgoing};

/// The most messages that a batch may say it has. Each costs its receiver a permit, and us a row and its
/// index where it is filtered; clients bound a batch to 1,000 by default.
const MAX_MESSAGES_IN_BATCH: u32 = 100_000;

impl Connection<'_> {
    pub(super) async fn send(&mut self, send: &CommandSend, entry: Bytes) -> Result<(), Ended> {
        let known = self.producers.get(&send.producer_id).filter(|known| !known.is_closed());
        let Some(producing) = known else {
            // There is no request that could be refused. What was under way when the producer was closed
            // will come again from its client; anything else is a mistake of the client's.
            if self.producers.contains_key(&send.producer_id) || self.was_closed(send.producer_id) {
                return Ok(());
            }
            return Err(Ended::Violation(format!(
                "SEND came for producer {}, which is not there",
                send.producer_id
            )));
        };
        if send.txnid_least_bits() != 0 || send.txnid_most_bits() != 0 {
            let refused = Refused::new(ServerError::NotAllowedError, "transactions are not served");
            return Ok(self.receipts.answer(send_error(send, refused)).await?);
        }
        let messages = match check(&entry) {
            Ok(messages) => messages,
            Err(refused) => return Ok(self.receipts.answer(send_error(send, refused)).await?),
        };
        let size = entry.len();
        let most = self.service.limits.pending_publish.bytes();
        let permits = u32::try_from(size.clamp(1, most.max(1))).unwrap_or(u32::MAX);
        let permit =
            Arc::clone(&self.publishing).acquire_many_owned(permits).await.map_err(|_never_closed| Closed)?;
        // The order is that of the calls, whatever the order in which the futures are polled.
        let published = producing.producer.publish(entry, messages);
        let metrics = self.service.metrics.clone();
        let send = send.clone();
        let receipt = async move {
            let published = published.await;
            drop(permit);
            match published {
                Ok(published) => {
                    metrics.published_messages.inc_by(u64::from(messages));
                    metrics.published_bytes.inc_by(size as u64);
                    Some(receipt(&send, published))
                }
                // The client is told that its producer is closed, and sends again by the next one.
                Err(BrokerError::Closing(_)) => None,
                Err(error) => Some(send_error(&send, Refused::of_send(error))),
            }
        };
        Ok(self.receipts.push(receipt).await?)
    }
}

/// Looks at an entry without keeping anything of it: its checksum, and how many messages its receiver
/// will count.
fn check(entry: &Bytes) -> Result<u32, Refused> {
    let unreadable =
        |error| Refused::new(ServerError::NotAllowedError, format!("the message cannot be read: {error}"));
    match verify_checksum(entry) {
        Ok(_) => {}
        Err(EntryError::Checksum { .. }) => {
            return Err(Refused::new(ServerError::ChecksumError, "Checksum failed on the broker"));
        }
        Err(error) => return Err(unreadable(error)),
    }
    let entry = Entry::parse(entry).map_err(unreadable)?;
    // Present is what makes a batch, whatever the number.
    match entry.metadata().num_messages_in_batch.map(u32::try_from) {
        None => Ok(entry.messages()),
        Some(Ok(messages @ 1..=MAX_MESSAGES_IN_BATCH)) => Ok(messages),
        Some(_) => {
            let text = format!(
                "a batch says that it has {} messages; it may have 1 to {MAX_MESSAGES_IN_BATCH}",
                entry.metadata().num_messages_in_batch()
            );
            Err(Refused::new(ServerError::NotAllowedError, text))
        }
    }
}

fn receipt(send: &CommandSend, published: Published) -> Outgoing {
    frames::simple(CommandSendReceipt {
        producer_id: send.producer_id,
        sequence_id: send.sequence_id,
        message_id: Some(MessageIdData {
            ledger_id: published.position.ledger,
            entry_id: published.position.entry,
            ..MessageIdData::default()
        }),
        highest_sequence_id: send.highest_sequence_id,
    })
}

fn send_error(send: &CommandSend, refused: Refused) -> Outgoing {
    frames::simple(CommandSendError {
        producer_id: send.producer_id,
        sequence_id: send.sequence_id,
        error: refused.code as i32,
        message: refused.text,
    })
}
