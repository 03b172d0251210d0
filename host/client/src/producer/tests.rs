use tokio::join;
use tokio::net::TcpStream;
use weir_wire::pulsar::codec::MAX_UNCOMPRESSED_SIZE;
use weir_wire::pulsar::command::{CommandProducerSuccess, CommandSend, CommandSendError, CommandSendReceipt};
use weir_wire::pulsar::command::{CommandSuccess, MessageIdData};
use weir_wire::pulsar::{Command, Entry, OpenEntry, ServerError};

use super::*;
use crate::client::ClientOptions;
use crate::testing::{Peer, Server, soon};

const TOPIC: &str = "persistent://public/default/flights";

/// A client, a producer and the server's end of their connection.
async fn producing(server: &Server, options: ProducerOptions) -> (Client, Producer, Peer<TcpStream>) {
    let (client, mut peer) = join!(Client::connect(&server.url, ClientOptions::default()), server.accept());
    let client = client.unwrap();
    let (producer, ()) = join!(client.producer(TOPIC, options), async {
        assert_eq!(take_producer(&mut peer).await, (None, 0));
    });
    let producer = producer.unwrap();
    (client, producer, peer)
}

/// Takes PRODUCER and answers it; gives its name and epoch.
async fn take_producer(peer: &mut Peer<TcpStream>) -> (Option<String>, u64) {
    let Command::Producer(asked) = peer.command().await else { panic!("expected PRODUCER") };
    assert_eq!(asked.topic, TOPIC);
    peer.send(CommandProducerSuccess {
        request_id: asked.request_id,
        producer_name: "scripted-0".into(),
        ..Default::default()
    })
    .await;
    (asked.producer_name.clone(), asked.epoch())
}

async fn take_send(peer: &mut Peer<TcpStream>) -> (CommandSend, OpenEntry) {
    let (Command::Send(send), Some(entry)) = peer.request().await else { panic!("expected SEND") };
    let entry = Entry::parse(&entry).unwrap().open(MAX_UNCOMPRESSED_SIZE).unwrap();
    (send, entry)
}

async fn receipt(peer: &mut Peer<TcpStream>, send: &CommandSend, entry_id: u64) {
    peer.send(CommandSendReceipt {
        producer_id: send.producer_id,
        sequence_id: send.sequence_id,
        message_id: Some(MessageIdData { ledger_id: 5, entry_id, ..Default::default() }),
        highest_sequence_id: None,
    })
    .await;
}

fn batches_of(max_messages: usize) -> Option<BatchOptions> {
    Some(BatchOptions { max_messages, max_delay: Duration::from_secs(60), ..BatchOptions::default() })
}

#[tokio::test]
async fn messages_are_batched_and_packed() {
    let server = Server::start().await;
    let options = ProducerOptions {
        batch: batches_of(3),
        compression: CompressionType::Zstd,
        ..ProducerOptions::default()
    };
    let (_client, producer, mut peer) = producing(&server, options).await;
    let mut receipts = Vec::new();
    for number in 0..3 {
        let message = OutgoingMessage::new(format!("m{number}")).property("n", number.to_string()).key("k");
        receipts.push(producer.enqueue(message).await.unwrap());
    }
    let (send, entry) = take_send(&mut peer).await;
    assert_eq!((send.sequence_id, send.num_messages(), send.highest_sequence_id()), (0, 3, 2));
    assert_eq!(entry.entry().metadata().producer_name, "scripted-0");
    assert_eq!(entry.entry().metadata().compression(), CompressionType::Zstd);
    for (number, message) in entry.messages().enumerate() {
        assert_eq!(message.payload(), format!("m{number}"));
        assert_eq!(message.property("n"), Some(number.to_string().as_str()));
        assert_eq!(message.key(), Some("k"));
    }
    receipt(&mut peer, &send, 3).await;
    for (index, waiting) in receipts.into_iter().enumerate() {
        let id = soon(waiting.wait()).await.unwrap();
        assert_eq!(id.to_string(), format!("5:3:-1:{index}"));
    }
}

#[tokio::test]
async fn without_batching_each_message_is_an_entry() {
    let server = Server::start().await;
    let options = ProducerOptions { batch: None, ..ProducerOptions::default() };
    let (_client, producer, mut peer) = producing(&server, options).await;
    for sequence_id in 0..2 {
        let (id, ()) = join!(producer.send(OutgoingMessage::new("x").property("a", "b")), async {
            let (send, entry) = take_send(&mut peer).await;
            assert_eq!(send.sequence_id, sequence_id);
            assert!(!entry.is_batch());
            assert_eq!(entry.message(0).unwrap().property("a"), Some("b"));
            receipt(&mut peer, &send, sequence_id).await;
        });
        assert_eq!(id.unwrap().to_string(), format!("5:{sequence_id}:-1"));
    }
}

#[tokio::test]
async fn what_has_no_receipt_is_sent_again_after_a_reconnect() {
    let server = Server::start().await;
    let options = ProducerOptions { batch: None, ..ProducerOptions::default() };
    let (_client, producer, mut peer) = producing(&server, options).await;
    let first = producer.enqueue(OutgoingMessage::new("one")).await.unwrap();
    let second = producer.enqueue(OutgoingMessage::new("two")).await.unwrap();
    let (send, _) = take_send(&mut peer).await;
    receipt(&mut peer, &send, 0).await;
    assert_eq!(soon(first.wait()).await.unwrap().entry, 0);
    let (lost, entry) = take_send(&mut peer).await;
    drop(peer);

    let mut peer = server.accept().await;
    assert_eq!(take_producer(&mut peer).await, (Some("scripted-0".to_owned()), 1));
    let (again, same) = take_send(&mut peer).await;
    assert_eq!(again, lost);
    assert_eq!(same.message(0).unwrap().payload(), "two");
    assert_eq!(same.message(0).unwrap().publish_time(), entry.message(0).unwrap().publish_time());
    receipt(&mut peer, &again, 1).await;
    assert_eq!(soon(second.wait()).await.unwrap().entry, 1);
}

#[tokio::test]
async fn a_refused_entry_is_told_to_its_messages() {
    let server = Server::start().await;
    let options = ProducerOptions { batch: batches_of(2), ..ProducerOptions::default() };
    let (_client, producer, mut peer) = producing(&server, options).await;
    let both = [
        producer.enqueue(OutgoingMessage::new("a")).await.unwrap(),
        producer.enqueue(OutgoingMessage::new("b")).await.unwrap(),
    ];
    let (send, _) = take_send(&mut peer).await;
    peer.send(CommandSendError {
        producer_id: send.producer_id,
        sequence_id: send.sequence_id,
        error: ServerError::PersistenceError.into(),
        message: "disk full".into(),
    })
    .await;
    for receipt in both {
        let error = soon(receipt.wait()).await.unwrap_err();
        assert_eq!(error.to_string(), "SEND was refused: PersistenceError: disk full");
    }
}

#[tokio::test]
async fn a_message_that_the_server_would_not_take_is_not_sent() {
    let server = Server::start().await;
    let options = ProducerOptions { batch: None, ..ProducerOptions::default() };
    let (_client, producer, _peer) = producing(&server, options).await;
    let error = producer.send(OutgoingMessage::new(vec![0; 1 << 20])).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 1_048_576, .. }), "{error}");
}

#[tokio::test]
async fn close_sends_what_was_collected() {
    let server = Server::start().await;
    let options = ProducerOptions { batch: batches_of(100), ..ProducerOptions::default() };
    let (_client, producer, mut peer) = producing(&server, options).await;
    let waiting = producer.enqueue(OutgoingMessage::new("a")).await.unwrap();
    let (closed, ()) = join!(producer.close(), async {
        let (send, entry) = take_send(&mut peer).await;
        assert!(entry.is_batch(), "a batch of one is a batch");
        receipt(&mut peer, &send, 0).await;
        let Command::CloseProducer(close) = peer.command().await else { panic!("expected CLOSE_PRODUCER") };
        peer.send(CommandSuccess { request_id: close.request_id, schema: None }).await;
    });
    closed.unwrap();
    assert!(soon(waiting.wait()).await.is_ok());
}

#[test]
fn keys_are_hashed_as_java_does() {
    assert_eq!(java_hash(""), 0);
    assert_eq!(java_hash("hello"), 99_162_322);
    // `"polygenelubricants".hashCode()` is the most negative number.
    assert_eq!(java_hash("polygenelubricants"), 0);
    assert_eq!(java_hash("ü"), 252);
}
