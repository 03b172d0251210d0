use tokio::join;
use tokio::net::TcpStream;
use weir_wire::pulsar::command::{
    CommandAckResponse, CommandCloseConsumer, CommandError, CommandMessage, CommandSubscribe, CommandSuccess,
    CompressionType, KeyValue,
};
use weir_wire::pulsar::entry::{BatchBuilder, write};
use weir_wire::pulsar::{Command, MessageMetadata, NO_REQUEST, ServerError, SingleMessageMetadata};

use super::*;
use crate::client::ClientOptions;
use crate::testing::{Peer, Server, soon};

const TOPIC: &str = "persistent://public/default/flights";

async fn consuming(server: &Server, options: ConsumerOptions) -> (Client, Consumer, Peer<TcpStream>) {
    let (client, mut peer) = join!(Client::connect(&server.url, ClientOptions::default()), server.accept());
    let client = client.unwrap();
    let topics = [TOPIC.to_owned()];
    let queue = options.queue;
    let (consumer, ()) = join!(client.subscribe(&topics, "late", options), async {
        take_subscribe(&mut peer, queue).await;
    });
    let consumer = consumer.unwrap();
    (client, consumer, peer)
}

/// Takes SUBSCRIBE and the first permits.
async fn take_subscribe(peer: &mut Peer<TcpStream>, queue: u32) -> CommandSubscribe {
    let Command::Subscribe(asked) = peer.command().await else { panic!("expected SUBSCRIBE") };
    assert_eq!((asked.topic.as_str(), asked.subscription.as_str()), (TOPIC, "late"));
    succeed(peer, asked.request_id).await;
    assert_eq!(permits(peer).await, queue);
    asked
}

async fn succeed(peer: &mut Peer<TcpStream>, request_id: u64) {
    peer.send(CommandSuccess { request_id, schema: None }).await;
}

async fn permits(peer: &mut Peer<TcpStream>) -> u32 {
    let Command::Flow(flow) = peer.command().await else { panic!("expected FLOW") };
    flow.message_permits
}

/// Takes an ACK and answers it; gives what it acknowledges.
async fn take_ack(peer: &mut Peer<TcpStream>) -> CommandAck {
    let Command::Ack(ack) = peer.command().await else { panic!("expected ACK") };
    peer.send(CommandAckResponse {
        consumer_id: ack.consumer_id,
        request_id: ack.request_id,
        ..Default::default()
    })
    .await;
    ack
}

fn metadata() -> MessageMetadata {
    MessageMetadata { producer_name: "p".into(), sequence_id: 1, publish_time: 2, ..Default::default() }
}

fn batch(payloads: &[&str]) -> bytes::Bytes {
    let mut batch = BatchBuilder::new();
    for (id, payload) in payloads.iter().enumerate() {
        let metadata = SingleMessageMetadata {
            properties: vec![KeyValue::new("n", id.to_string())],
            partition_key: Some("k".into()),
            event_time: Some(9),
            sequence_id: Some(id as u64),
            ..Default::default()
        };
        batch.push(metadata, payload.as_bytes());
    }
    batch.finish(metadata(), CompressionType::Lz4).unwrap()
}

fn message(entry_id: u64, ack_set: &[i64]) -> CommandMessage {
    CommandMessage {
        message_id: MessageIdData { ledger_id: 5, entry_id, ..Default::default() },
        ack_set: ack_set.to_vec(),
        redelivery_count: Some(1),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_batch_is_split_and_acknowledged_by_index() {
    let server = Server::start().await;
    let (_client, mut consumer, mut peer) = consuming(&server, ConsumerOptions::default()).await;
    peer.send_entry(message(3, &[]), &batch(&["a", "b", "c"])).await;
    let mut received = Vec::new();
    for index in 0..3 {
        let message = soon(consumer.receive()).await.unwrap();
        assert_eq!(message.id.to_string(), format!("5:3:-1:{index}"));
        assert_eq!(message.property("n"), Some(index.to_string().as_str()));
        assert_eq!(
            (message.key.as_deref(), message.event_time, message.publish_time),
            (Some("k"), Some(9), 2)
        );
        assert_eq!((&*message.topic, message.redelivery_count), (TOPIC, 1));
        received.push(message);
    }
    assert_eq!(received[1].payload, "b");

    let (done, ack) = join!(consumer.acknowledge(&received[1]), take_ack(&mut peer));
    done.unwrap();
    assert_eq!(ack.ack_type(), AckType::Individual);
    assert_eq!((ack.message_id[0].ack_set.as_slice(), ack.message_id[0].batch_size), (&[0b101][..], Some(3)));

    let rest = [&received[0], &received[2]];
    let (done, ack) = join!(consumer.acknowledge_all(rest), take_ack(&mut peer));
    done.unwrap();
    assert_eq!(ack.message_id.len(), 1, "one word on one entry");
    assert_eq!((ack.message_id[0].ack_set.as_slice(), ack.message_id[0].batch_size), (&[][..], None));
}

#[tokio::test]
async fn what_was_acknowledged_before_is_not_shown() {
    let server = Server::start().await;
    let (_client, mut consumer, mut peer) = consuming(&server, ConsumerOptions::default()).await;
    peer.send_entry(message(3, &[0b10]), &batch(&["a", "b"])).await;
    let message = soon(consumer.receive()).await.unwrap();
    assert_eq!(message.payload, "b");
    let (done, ack) = join!(consumer.acknowledge_cumulative(&message), take_ack(&mut peer));
    done.unwrap();
    assert_eq!(ack.ack_type(), AckType::Cumulative);
    assert!(ack.message_id[0].ack_set.is_empty());
}

#[tokio::test]
async fn permits_are_given_back_by_the_half_queue() {
    let server = Server::start().await;
    let options = ConsumerOptions { queue: 4, ..ConsumerOptions::default() };
    let (_client, mut consumer, mut peer) = consuming(&server, options).await;
    peer.send_entry(message(0, &[]), &batch(&["a", "b"])).await;
    peer.send_entry(message(1, &[]), &write(&metadata(), b"c")).await;
    assert_eq!(permits(&mut peer).await, 3);
    for payload in ["a", "b", "c"] {
        assert_eq!(soon(consumer.receive()).await.unwrap().payload, payload);
    }
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_is_told_and_the_next_one_comes() {
    let server = Server::start().await;
    let (_client, mut consumer, mut peer) = consuming(&server, ConsumerOptions::default()).await;
    let mut broken = write(&metadata(), b"x").to_vec();
    *broken.last_mut().unwrap() ^= 1;
    peer.send_entry(message(7, &[]), &broken).await;
    peer.send_entry(message(8, &[]), &write(&metadata(), b"y")).await;
    let error = soon(consumer.receive()).await.unwrap_err();
    let text = format!("entry 5:7 of {TOPIC} cannot be read: the entry has crc32c");
    assert!(error.to_string().starts_with(&text), "{error}");
    assert_eq!(soon(consumer.receive()).await.unwrap().payload, "y");
}

#[tokio::test]
async fn it_subscribes_again_when_the_server_closes_it() {
    let server = Server::start().await;
    let options = ConsumerOptions { create_topic: false, ..ConsumerOptions::default() };
    let (_client, mut consumer, mut peer) = consuming(&server, options).await;
    peer.send(CommandCloseConsumer { request_id: NO_REQUEST, ..Default::default() }).await;
    let asked = take_subscribe(&mut peer, 1000).await;
    assert!(!asked.force_topic_creation());
    drop(peer);
    let mut peer = server.accept().await;
    take_subscribe(&mut peer, 1000).await;
    peer.send_entry(message(0, &[]), &write(&metadata(), b"x")).await;
    let received = soon(consumer.receive()).await.unwrap();
    let (done, ack) = join!(consumer.acknowledge(&received), take_ack(&mut peer));
    done.unwrap();
    assert_eq!(ack.message_id[0].entry_id, 0);
}

#[tokio::test]
async fn a_deleted_topic_ends_it() {
    let server = Server::start().await;
    let (_client, mut consumer, mut peer) = consuming(&server, ConsumerOptions::default()).await;
    peer.send(CommandCloseConsumer { request_id: NO_REQUEST, ..Default::default() }).await;
    let Command::Subscribe(asked) = peer.command().await else { panic!("expected SUBSCRIBE") };
    peer.send(CommandError {
        request_id: asked.request_id,
        error: ServerError::TopicNotFound.into(),
        message: "gone".into(),
    })
    .await;
    let error = soon(consumer.receive()).await.unwrap_err();
    assert_eq!(error.to_string(), "SUBSCRIBE was refused: TopicNotFound: gone");
    assert!(matches!(soon(consumer.receive()).await, Err(Error::Ended("consumer"))));
}

#[tokio::test]
async fn unsubscribe_and_close_are_answered() {
    let server = Server::start().await;
    let (_client, consumer, mut peer) = consuming(&server, ConsumerOptions::default()).await;
    let (done, ()) = join!(consumer.unsubscribe(), async {
        let Command::Unsubscribe(asked) = peer.command().await else { panic!("expected UNSUBSCRIBE") };
        succeed(&mut peer, asked.request_id).await;
        let Command::CloseConsumer(asked) = peer.command().await else { panic!("expected CLOSE_CONSUMER") };
        succeed(&mut peer, asked.request_id).await;
    });
    done.unwrap();
}

#[tokio::test]
async fn a_subscription_that_was_deleted_is_not_made_again() {
    let server = Server::start().await;
    let (_client, consumer, mut peer) = consuming(&server, ConsumerOptions::default()).await;
    let (done, ()) = join!(consumer.unsubscribe(), async {
        let Command::Unsubscribe(asked) = peer.command().await else { panic!("expected UNSUBSCRIBE") };
        peer.send(CommandCloseConsumer { request_id: NO_REQUEST, ..Default::default() }).await;
        succeed(&mut peer, asked.request_id).await;
        let Command::CloseConsumer(asked) = peer.command().await else { panic!("expected CLOSE_CONSUMER") };
        succeed(&mut peer, asked.request_id).await;
    });
    done.unwrap();
}

#[tokio::test]
async fn a_full_queue_does_not_hold_its_close() {
    let server = Server::start().await;
    let options = ConsumerOptions { queue: 1, ..ConsumerOptions::default() };
    let (_client, consumer, mut peer) = consuming(&server, options).await;
    // The second message of the batch waits for room.
    peer.send_entry(message(0, &[]), &batch(&["a", "b"])).await;
    let (done, ()) = join!(consumer.close(), async {
        let Command::CloseConsumer(asked) = peer.command().await else { panic!("expected CLOSE_CONSUMER") };
        succeed(&mut peer, asked.request_id).await;
    });
    done.unwrap();
}

#[tokio::test]
async fn dropped_it_is_closed_on_the_server() {
    let server = Server::start().await;
    let (_client, consumer, mut peer) = consuming(&server, ConsumerOptions::default()).await;
    drop(consumer);
    assert!(matches!(peer.command().await, Command::CloseConsumer(_)));
}
