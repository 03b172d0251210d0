//! GET_SCHEMA and GET_OR_CREATE_SCHEMA. Schemas are not kept: producers are told no version, so that
//! consumers read messages with the schema they bring.

use bytes::Bytes;
use weir_broker::TopicName;
use weir_wire::pulsar::ServerError;
use weir_wire::pulsar::command::{
    CommandGetOrCreateSchema, CommandGetOrCreateSchemaResponse, CommandGetSchema, CommandGetSchemaResponse,
};

use super::connection::{Connection, Ended};
use super::errors::Refused;
use super::frames;

impl Connection<'_> {
    /// There is none, which is what clients expect of a topic without a schema.
    pub(super) async fn schema(&self, request: CommandGetSchema) -> Result<(), Ended> {
        let refused = match TopicName::new(&request.topic) {
            Ok(topic) => {
                Refused::new(ServerError::TopicNotFound, format!("Topic not found or no-schema {topic}"))
            }
            Err(error) => error.into(),
        };
        let answer = CommandGetSchemaResponse {
            request_id: request.request_id,
            error_code: Some(refused.code as i32),
            error_message: Some(refused.text),
            ..CommandGetSchemaResponse::default()
        };
        Ok(self.answers.answer(frames::simple(answer)).await?)
    }

    pub(super) async fn register_schema(&self, request: &CommandGetOrCreateSchema) -> Result<(), Ended> {
        let mut answer = CommandGetOrCreateSchemaResponse {
            request_id: request.request_id,
            ..CommandGetOrCreateSchemaResponse::default()
        };
        match TopicName::new(&request.topic) {
            Ok(_) => answer.schema_version = Some(Bytes::new()),
            Err(error) => {
                let refused = Refused::from(error);
                answer.error_code = Some(refused.code as i32);
                answer.error_message = Some(refused.text);
            }
        }
        Ok(self.answers.answer(frames::simple(answer)).await?)
    }
}
