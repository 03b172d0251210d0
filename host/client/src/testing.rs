//! A server that does what a test tells it, byte by byte.

use std::future::Future;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use weir_wire::pulsar::command::{
    CommandConnected, CommandLookupTopicResponse, CommandPartitionedTopicMetadataResponse, CommandPong,
    LookupType, MetadataLookupType,
};
use weir_wire::pulsar::frame::{encode, encode_with_payload};
use weir_wire::pulsar::{Command, Decoder, Frame};

/// Far longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits, not for ever.
pub(crate) async fn soon<F: Future>(what: F) -> F::Output {
    timeout(PATIENCE, what).await.expect("must happen soon")
}

/// The server's end of a connection.
pub(crate) struct Peer<S> {
    stream: S,
    buffer: BytesMut,
    /// What lookups answer.
    url: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: BytesMut::new(), url: String::new() }
    }

    /// The next frame; `None` when the client has closed the connection.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = Decoder::default().decode(&mut self.buffer).unwrap() {
                return Some(frame);
            }
            if soon(self.stream.read_buf(&mut self.buffer)).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The next command that is not one about partitions, lookup or liveness: those are answered.
    pub(crate) async fn command(&mut self) -> Command {
        match self.request().await {
            (command, None) => command,
            (command, Some(_)) => panic!("{} with a payload", command.name()),
        }
    }

    /// Likewise, with its payload.
    pub(crate) async fn request(&mut self) -> (Command, Option<Bytes>) {
        loop {
            match self.next().await.expect("the client is there") {
                Frame::Simple(Command::PartitionedTopicMetadata(asked)) => {
                    self.send(CommandPartitionedTopicMetadataResponse {
                        partitions: Some(0),
                        request_id: asked.request_id,
                        response: Some(MetadataLookupType::Success.into()),
                        ..Default::default()
                    })
                    .await;
                }
                Frame::Simple(Command::LookupTopic(asked)) => {
                    self.send(CommandLookupTopicResponse {
                        broker_service_url: Some(self.url.clone()),
                        response: Some(LookupType::Connect.into()),
                        request_id: asked.request_id,
                        ..Default::default()
                    })
                    .await;
                }
                Frame::Simple(Command::Ping(_)) => self.send(CommandPong {}).await,
                Frame::Simple(command) => return (command, None),
                Frame::Payload(command, entry) => return (command, Some(entry)),
                Frame::Unknown(number) => panic!("the client sent the unknown command {number}"),
            }
        }
    }

    pub(crate) async fn send(&mut self, command: impl Into<Command>) {
        let mut frame = BytesMut::new();
        encode(&command.into(), &mut frame);
        self.send_bytes(&frame).await;
    }

    pub(crate) async fn send_entry(&mut self, command: impl Into<Command>, entry: &[u8]) {
        let mut frame = BytesMut::new();
        encode_with_payload(&command.into(), entry, &mut frame);
        self.send_bytes(&frame).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        soon(self.stream.write_all(bytes)).await.unwrap();
    }

    /// Takes CONNECT and answers it.
    pub(crate) async fn shake_hands(&mut self) {
        let Some(Frame::Simple(Command::Connect(_))) = self.next().await else { panic!("expected CONNECT") };
        self.send(CommandConnected {
            server_version: "scripted".into(),
            protocol_version: Some(21),
            max_message_size: Some(1 << 20),
            ..Default::default()
        })
        .await;
    }
}

/// A server on a port of its own.
pub(crate) struct Server {
    listener: TcpListener,
    pub(crate) url: String,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("pulsar://{}", listener.local_addr().unwrap());
        Self { listener, url }
    }

    /// The next connection, past its handshake.
    pub(crate) async fn accept(&self) -> Peer<TcpStream> {
        let (stream, _) = soon(self.listener.accept()).await.unwrap();
        let mut peer = Peer { url: self.url.clone(), ..Peer::new(stream) };
        peer.shake_hands().await;
        peer
    }
}
