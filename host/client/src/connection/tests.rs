use std::time::Duration;

use tokio::io::{DuplexStream, duplex};
use tokio::join;
use weir_wire::pulsar::ServerError;
use weir_wire::pulsar::command::{
    CommandAuthChallenge, CommandConnected, CommandError, CommandFlow, CommandGetLastMessageId,
    CommandSuccess, CommandUnsubscribe, MessageIdData,
};

use super::*;
use crate::testing::{Peer, soon};

fn hello() -> Hello {
    let long = Duration::from_secs(20);
    Hello { token: None, proxy_to: None, timeout: long, keep_alive: long }
}

/// A connection past its handshake, and the server's end of it.
async fn connected(hello: Hello) -> (Connection, Peer<DuplexStream>) {
    let (ours, theirs) = duplex(1 << 20);
    let mut peer = Peer::new(theirs);
    let (connection, ()) = join!(Connection::open(ours, hello), peer.shake_hands());
    (connection.unwrap(), peer)
}

fn unsubscribe(request_id: u64) -> CommandUnsubscribe {
    CommandUnsubscribe { consumer_id: 1, request_id, force: None }
}

/// The id of the request that comes next.
async fn request_id(peer: &mut Peer<DuplexStream>) -> u64 {
    match peer.command().await {
        Command::Unsubscribe(request) => request.request_id,
        Command::GetLastMessageId(request) => request.request_id,
        other => panic!("unexpected {}", other.name()),
    }
}

fn success(request_id: u64) -> CommandSuccess {
    CommandSuccess { request_id, schema: None }
}

#[tokio::test]
async fn the_server_says_what_it_takes() {
    let (connection, _peer) = connected(hello()).await;
    assert_eq!(connection.max_message_size, 1 << 20);
    assert_eq!(connection.protocol_version, 21);
}

#[tokio::test]
async fn a_token_is_sent_and_sent_again_when_asked_for() {
    let (ours, theirs) = duplex(1 << 20);
    let mut peer = Peer::new(theirs);
    let server = async {
        let Some(Frame::Simple(Command::Connect(connect))) = peer.next().await else { panic!("no CONNECT") };
        assert_eq!(connect.auth_method_name(), "token");
        assert_eq!(connect.auth_data.unwrap(), "secret");
        peer.send(CommandAuthChallenge::default()).await;
        let Command::AuthResponse(response) = peer.command().await else { panic!("no AUTH_RESPONSE") };
        assert_eq!(response.response.unwrap().auth_data.unwrap(), "secret");
        peer.send(CommandConnected { server_version: "s".into(), ..Default::default() }).await;
    };
    let (connection, ()) =
        join!(Connection::open(ours, Hello { token: Some("secret".into()), ..hello() }), server);
    assert_eq!(connection.unwrap().max_message_size, DEFAULT_MAX_MESSAGE_SIZE);
}

#[tokio::test]
async fn a_refused_handshake_says_why() {
    let (ours, theirs) = duplex(1 << 20);
    let mut peer = Peer::new(theirs);
    peer.send(CommandError {
        request_id: NO_REQUEST,
        error: ServerError::AuthenticationError.into(),
        message: "no such token".into(),
    })
    .await;
    let error = Connection::open(ours, hello()).await.unwrap_err();
    assert_eq!(error.to_string(), "CONNECT was refused: AuthenticationError: no such token");
    assert!(error.is_permanent());
}

#[tokio::test]
async fn a_silent_server_does_not_hold_the_handshake() {
    let (ours, _theirs) = duplex(1 << 20);
    let hello = Hello { timeout: Duration::from_millis(10), ..hello() };
    let error = soon(Connection::open(ours, hello)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { request: "CONNECT", .. }), "{error}");
}

#[tokio::test]
async fn answers_find_their_requests() {
    let (connection, mut peer) = connected(hello()).await;
    let server = async {
        let (first, second) = (request_id(&mut peer).await, request_id(&mut peer).await);
        peer.send(CommandError {
            request_id: second,
            error: ServerError::MetadataError.into(),
            message: "Consumer not found".into(),
        })
        .await;
        peer.send(success(first)).await;
    };
    let (first, second, ()) = join!(
        connection.request(unsubscribe),
        connection.request(|request_id| CommandGetLastMessageId { consumer_id: 1, request_id }),
        server
    );
    assert!(matches!(first, Ok(Command::Success(_))));
    let error = second.unwrap_err().to_string();
    assert_eq!(error, "GET_LAST_MESSAGE_ID was refused: MetadataError: Consumer not found");
}

#[tokio::test]
async fn a_request_is_given_up_in_time_and_its_answer_passed_over() {
    let (connection, mut peer) = connected(Hello { timeout: Duration::from_millis(10), ..hello() }).await;
    let error = connection.request(unsubscribe).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { request: "UNSUBSCRIBE", .. }), "{error}");
    assert!(connection.shared.state.lock().requests.is_empty());
    let late = request_id(&mut peer).await;
    peer.send(success(late)).await;
    peer.send(CommandPing {}).await;
    assert_eq!(peer.next().await, Some(Frame::Simple(CommandPong {}.into())));
}

#[tokio::test]
async fn a_ping_is_answered() {
    let (_connection, mut peer) = connected(hello()).await;
    peer.send(CommandPing {}).await;
    assert_eq!(peer.next().await, Some(Frame::Simple(CommandPong {}.into())));
}

#[tokio::test]
async fn a_server_that_falls_silent_is_asked_and_given_up() {
    let (connection, mut peer) = connected(Hello { keep_alive: Duration::from_millis(20), ..hello() }).await;
    assert_eq!(peer.next().await, Some(Frame::Simple(CommandPing {}.into())));
    // The next request is never answered: its end is that of the connection.
    let error = soon(connection.request(unsubscribe)).await.unwrap_err();
    assert_eq!(error.to_string(), "the connection ended: the server was silent for 20ms");
    assert!(connection.is_closed());
}

#[tokio::test]
async fn everyone_who_waits_is_told_of_the_end() {
    let (connection, mut peer) = connected(hello()).await;
    let mut deliveries = connection.add_consumer(1, 1).unwrap();
    let mut receipts = connection.add_producer(1, 1).unwrap();
    let server = async {
        request_id(&mut peer).await;
        drop(peer);
    };
    let (answer, ()) = join!(connection.request(unsubscribe), server);
    assert!(matches!(answer, Err(Error::Closed(_))), "{answer:?}");
    assert!(soon(deliveries.recv()).await.is_none());
    assert!(soon(receipts.recv()).await.is_none());
    assert!(matches!(connection.request(unsubscribe).await, Err(Error::Closed(_))));
    assert!(connection.add_consumer(2, 1).is_err());
}

#[tokio::test]
async fn an_error_without_request_ends_the_connection() {
    let (connection, mut peer) = connected(hello()).await;
    let server = async {
        request_id(&mut peer).await;
        peer.send(CommandError {
            request_id: NO_REQUEST,
            error: ServerError::NotAllowedError.into(),
            message: "too many connections".into(),
        })
        .await;
    };
    let (answer, ()) = join!(connection.request(unsubscribe), server);
    assert_eq!(
        answer.unwrap_err().to_string(),
        "the connection ended: NotAllowedError: too many connections"
    );
}

#[tokio::test]
async fn what_is_no_frame_ends_the_connection() {
    let (connection, mut peer) = connected(hello()).await;
    peer.send_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let error = soon(connection.request(unsubscribe)).await.unwrap_err();
    assert!(matches!(error, Error::Protocol(_)), "{error}");
}

#[tokio::test]
async fn a_server_cannot_send_more_than_was_permitted() {
    let (connection, mut peer) = connected(hello()).await;
    let mut deliveries = connection.add_consumer(7, 2).unwrap();
    for entry_id in 0..3 {
        let message_id = MessageIdData { ledger_id: 1, entry_id, ..Default::default() };
        peer.send_entry(CommandMessage { consumer_id: 7, message_id, ..Default::default() }, b"entry").await;
    }
    let error = soon(connection.request(unsubscribe)).await.unwrap_err();
    assert_eq!(error.to_string(), "the connection ended: more was sent to consumer 7 than it has permitted");
    assert_eq!(deliveries.recv().await.unwrap().entry, "entry");
}

#[tokio::test]
async fn unknown_commands_are_passed_over() {
    let (connection, mut peer) = connected(hello()).await;
    peer.send_bytes(&[0, 0, 0, 7, 0, 0, 0, 3, 8, 0xe7, 7]).await;
    peer.send(CommandFlow { consumer_id: 9, message_permits: 1 }).await;
    let server = async {
        let id = request_id(&mut peer).await;
        peer.send(success(id)).await;
    };
    let (answer, ()) = join!(connection.request(unsubscribe), server);
    assert!(answer.is_ok());
}

#[tokio::test]
async fn the_last_handle_closes_the_connection_after_what_was_sent() {
    let (connection, mut peer) = connected(hello()).await;
    let other = connection.clone();
    drop(connection);
    other.send(&CommandFlow { consumer_id: 1, message_permits: 5 }.into());
    drop(other);
    assert!(matches!(peer.next().await, Some(Frame::Simple(Command::Flow(_)))));
    assert_eq!(peer.next().await, None);
}
