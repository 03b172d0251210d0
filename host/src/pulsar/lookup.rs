//! Where a topic is served, and how many partitions it has.

use weir_broker::TopicName;
use weir_wire::pulsar::command::{
    CommandLookupTopic, CommandLookupTopicResponse, CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse, LookupType, MetadataLookupType,
};

use super::connection::{Connection, Ended};
use super::errors::Refused;
use super::frames;

impl Connection<'_> {
    /// PARTITIONED_METADATA: makes the topic if the client wants that and the configuration allows it.
    pub(super) async fn partitions(&self, request: CommandPartitionedTopicMetadata) -> Result<(), Ended> {
        let may_create = request.metadata_auto_creation_enabled();
        let found = match TopicName::new(&request.topic) {
            Ok(topic) => self.service.broker.partitions(&topic, may_create).map_err(Refused::from),
            Err(error) => Err(error.into()),
        };
        let mut answer = CommandPartitionedTopicMetadataResponse {
            request_id: request.request_id,
            ..CommandPartitionedTopicMetadataResponse::default()
        };
        match found {
            // Both zeros are written: clients take a missing one for a failure.
            Ok(partitions) => {
                answer.partitions = Some(partitions.unwrap_or(0));
                answer.response = Some(MetadataLookupType::Success as i32);
            }
            Err(refused) => {
                answer.response = Some(MetadataLookupType::Failed as i32);
                answer.error = Some(refused.code as i32);
                answer.message = Some(refused.text);
            }
        }
        Ok(self.answers.answer(frames::simple(answer)).await?)
    }

    /// LOOKUP: always here. Whether the topic exists is found out by PRODUCER and SUBSCRIBE, as in Pulsar.
    pub(super) async fn lookup(&self, request: &CommandLookupTopic) -> Result<(), Ended> {
        let mut answer = CommandLookupTopicResponse {
            request_id: request.request_id,
            ..CommandLookupTopicResponse::default()
        };
        match TopicName::new(&request.topic) {
            Ok(_) => {
                let address = self.service.advertised.address(self.local);
                answer.broker_service_url = Some(format!("pulsar://{address}"));
                answer.response = Some(LookupType::Connect as i32);
                answer.authoritative = Some(true);
                answer.proxy_through_service_url = Some(false);
            }
            Err(error) => {
                let refused = Refused::from(error);
                answer.response = Some(LookupType::Failed as i32);
                answer.error = Some(refused.code as i32);
                answer.message = Some(refused.text);
            }
        }
        Ok(self.answers.answer(frames::simple(answer)).await?)
    }
}
