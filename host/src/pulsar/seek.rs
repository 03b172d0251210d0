//! SEEK, GET_LAST_MESSAGE_ID and CONSUMER_STATS: where a subscription is, and moving it.

use weir_broker::{Ends, SeekTo};
use weir_wire::pulsar::ServerError;
use weir_wire::pulsar::command::{
    CommandConsumerStats, CommandConsumerStatsResponse, CommandGetLastMessageId,
    CommandGetLastMessageIdResponse, CommandSeek, MessageIdData,
};
use weir_wire::pulsar::entry::Entry;

use super::connection::{Connection, Ended};
use super::consumer::{Place, place};
use super::errors::Refused;
use super::frames;

impl Connection<'_> {
    /// The broker closes the consumers of the subscription first; their clients are told, and come again.
    ///
    /// That comes before the answer, as Pulsar's: a client that hears of the end of its consumer after the
    /// end of its seek takes it for any other end, and goes on behind what it had read.
    pub(super) async fn seek(&mut self, request: CommandSeek) -> Result<(), Ended> {
        let told = match self.seek_to(&request).await {
            Ok(told) => told,
            Err(refused) => return self.refuse(request.request_id, refused).await,
        };
        let success = frames::success(request.request_id);
        let answer = async move {
            told.await;
            Some(success)
        };
        Ok(self.answers.push(answer).await?)
    }

    /// What is given back resolves when the client has been told of the end of its consumer.
    async fn seek_to(&mut self, request: &CommandSeek) -> Result<impl Future<Output = ()> + use<>, Refused> {
        let consuming = self.consumers.get(&request.consumer_id).ok_or_else(Refused::no_consumer)?;
        let to = match (&request.message_id, request.message_publish_time) {
            (Some(id), _) => match place(id) {
                Place::Earliest => SeekTo::Earliest,
                Place::Latest => SeekTo::Latest,
                Place::At(position) => SeekTo::Position(position),
            },
            (None, Some(time)) => SeekTo::PublishTime(time),
            (None, None) => {
                let text = "Message id and message publish time were not present";
                return Err(Refused::new(ServerError::MetadataError, text));
            }
        };
        consuming.consumer.seek(to).await?;
        Ok(consuming.told())
    }

    /// The last message of the topic, −1:−1 while there is none, and how far the subscription has come: at
    /// its beginning, to the entry −1 before the topic's first. Without that, clients say after a seek that
    /// there is nothing to read.
    pub(super) async fn last_message_id(&self, request: CommandGetLastMessageId) -> Result<(), Ended> {
        let Some(consuming) = self.consumers.get(&request.consumer_id) else {
            return self.refuse(request.request_id, Refused::no_consumer()).await;
        };
        let partition = consuming.topic.partition().and_then(|index| i32::try_from(index).ok()).unwrap_or(-1);
        let id = |ledger_id, entry_id, batch_index| MessageIdData {
            ledger_id,
            entry_id,
            partition: Some(partition),
            batch_index: Some(batch_index),
            ..MessageIdData::default()
        };
        let (last, beginning) = match consuming.consumer.ends().await {
            Ok(None) => (id(u64::MAX, u64::MAX, -1), None),
            Ok(Some(Ends { first, last, last_entry })) => {
                // What is stored was read once before, when it was taken.
                let batch =
                    Entry::parse(&last_entry).ok().and_then(|entry| entry.metadata().num_messages_in_batch);
                let last_index = batch.map_or(-1, |size| size.saturating_sub(1));
                let beginning = id(first.ledger, first.entry.wrapping_sub(1), -1);
                (id(last.ledger, last.entry, last_index), Some(beginning))
            }
            Err(error) => return self.refuse(request.request_id, error.into()).await,
        };
        let mark_delete = consuming.consumer.mark_delete().map(|at| id(at.ledger, at.entry, -1));
        let answer = CommandGetLastMessageIdResponse {
            last_message_id: last,
            request_id: request.request_id,
            consumer_mark_delete_position: mark_delete.or(beginning),
        };
        Ok(self.answers.answer(frames::simple(answer)).await?)
    }

    pub(super) async fn consumer_stats(&self, request: CommandConsumerStats) -> Result<(), Ended> {
        let mut answer = CommandConsumerStatsResponse {
            request_id: request.request_id,
            ..CommandConsumerStatsResponse::default()
        };
        match self.stats_of(request.consumer_id, &mut answer).await {
            Ok(()) => {}
            Err(refused) => {
                answer.error_code = Some(refused.code as i32);
                answer.error_message = Some(refused.text);
            }
        }
        Ok(self.answers.answer(frames::simple(answer)).await?)
    }

    async fn stats_of(
        &self,
        consumer_id: u64,
        answer: &mut CommandConsumerStatsResponse,
    ) -> Result<(), Refused> {
        let not_found =
            || Refused::new(ServerError::ConsumerNotFound, format!("Consumer {consumer_id} not found"));
        let consuming = self.consumers.get(&consumer_id).ok_or_else(not_found)?;
        let topic = self.service.broker.topic(&consuming.topic, false).await?;
        let stats = topic.stats().await?;
        let subscription = stats.subscriptions.get(&consuming.subscription).ok_or_else(not_found)?;
        answer.consumer_name = Some(consuming.consumer.name().to_owned());
        answer.consumer_type = Some(subscription.kind.to_owned());
        answer.msg_backlog = Some(subscription.msg_backlog);
        let of_name = |c: &&weir_broker::ConsumerStats| c.consumer_name == consuming.consumer.name();
        if let Some(consumer) = subscription.consumers.iter().find(of_name) {
            answer.available_permits = Some(u64::try_from(consumer.available_permits).unwrap_or(0));
            answer.unacked_messages = Some(consumer.unacked_messages);
        }
        Ok(())
    }
}
