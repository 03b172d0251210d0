use tokio::join;
use weir_wire::pulsar::Frame;
use weir_wire::pulsar::ServerError;
use weir_wire::pulsar::command::{
    CommandError, CommandGetTopicsOfNamespaceResponse, CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
};

use super::*;
use crate::testing::{Peer, Server};

/// A client and the server's end of its connection.
async fn connected(server: &Server) -> (Client, Peer<TcpStream>) {
    let (client, peer) = join!(Client::connect(&server.url, ClientOptions::default()), server.accept());
    (client.unwrap(), peer)
}

#[tokio::test]
async fn properties_go_with_a_listing() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server).await;
    let properties = [("env".to_owned(), "prod".to_owned()), ("region".to_owned(), "us-west".to_owned())];
    let listing = client.topics_of_namespace(
        "public/default",
        TopicsMode::All,
        Some("persistent://public/default/.*"),
        &properties,
        Some("3b616a66"),
    );
    let (list, ()) = join!(listing, async {
        let Command::GetTopicsOfNamespace(asked) = peer.command().await else { panic!("no listing") };
        assert_eq!(asked.namespace, "public/default");
        assert_eq!(asked.mode(), TopicsMode::All);
        assert_eq!(asked.topics_pattern(), "persistent://public/default/.*");
        assert_eq!(asked.topics_hash(), "3b616a66");
        assert_eq!(asked.properties, [KeyValue::new("env", "prod"), KeyValue::new("region", "us-west")]);
        peer.send(CommandGetTopicsOfNamespaceResponse {
            request_id: asked.request_id,
            topics: vec!["persistent://public/default/orders".into()],
            filtered: Some(true),
            topics_hash: Some("00000000".into()),
            changed: None,
        })
        .await;
    });
    let expected = TopicList {
        topics: vec!["persistent://public/default/orders".into()],
        filtered: true,
        hash: Some("00000000".into()),
        changed: true,
    };
    assert_eq!(list.unwrap(), expected);
}

#[tokio::test]
async fn a_listing_that_fails_is_an_error_and_no_list() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server).await;
    let listing = client.topics_of_namespace("t/n", TopicsMode::Persistent, None, &[], None);
    let (list, ()) = join!(listing, async {
        let Command::GetTopicsOfNamespace(asked) = peer.command().await else { panic!("no listing") };
        peer.send(CommandError {
            request_id: asked.request_id,
            error: ServerError::MetadataError.into(),
            message: "lister broke".into(),
        })
        .await;
    });
    let error = list.unwrap_err();
    assert_eq!(error.to_string(), "GET_TOPICS_OF_NAMESPACE was refused: MetadataError: lister broke");
}

#[tokio::test]
async fn partitions_have_names() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server).await;
    let (names, ()) = join!(client.partitions("persistent://t/n/x", false), async {
        let Some(Frame::Simple(Command::PartitionedTopicMetadata(asked))) = peer.next().await else {
            panic!("no question for partitions")
        };
        assert!(!asked.metadata_auto_creation_enabled());
        peer.send(CommandPartitionedTopicMetadataResponse {
            partitions: Some(2),
            request_id: asked.request_id,
            response: Some(MetadataLookupType::Success.into()),
            ..Default::default()
        })
        .await;
    });
    assert_eq!(names.unwrap(), ["persistent://t/n/x-partition-0", "persistent://t/n/x-partition-1"]);
}

#[tokio::test]
async fn an_absent_answer_is_a_failure() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server).await;
    let (names, ()) = join!(client.partitions("x", true), async {
        let Some(Frame::Simple(Command::PartitionedTopicMetadata(asked))) = peer.next().await else {
            panic!("no question for partitions")
        };
        peer.send(CommandPartitionedTopicMetadataResponse {
            request_id: asked.request_id,
            error: Some(ServerError::InvalidTopicName.into()),
            message: Some("bad name".into()),
            ..Default::default()
        })
        .await;
    });
    let error = names.unwrap_err();
    assert_eq!(error.to_string(), "PARTITIONED_METADATA was refused: InvalidTopicName: bad name");
}

#[tokio::test]
async fn a_redirect_is_followed() {
    let (first, second) = (Server::start().await, Server::start().await);
    let (client, mut peer) = connected(&first).await;
    let answer = |request_id, to: &Server, response: LookupType| CommandLookupTopicResponse {
        broker_service_url: Some(to.url.clone()),
        response: Some(response.into()),
        request_id,
        authoritative: Some(true),
        ..Default::default()
    };
    let (connection, _open) = join!(client.connection_for("x"), async {
        let Some(Frame::Simple(Command::LookupTopic(asked))) = peer.next().await else { panic!("no lookup") };
        assert!(!asked.authoritative());
        peer.send(answer(asked.request_id, &second, LookupType::Redirect)).await;
        let mut other = second.accept().await;
        let Some(Frame::Simple(Command::LookupTopic(asked))) = other.next().await else {
            panic!("no lookup")
        };
        assert!(asked.authoritative());
        other.send(answer(asked.request_id, &second, LookupType::Connect)).await;
        other
    });
    assert!(!connection.unwrap().is_closed());
    assert_eq!(client.inner.connections.lock().len(), 2);
}

#[tokio::test]
async fn nobody_there_is_told_with_the_address() {
    let server = Server::start().await;
    let url = server.url.clone();
    drop(server);
    let error = Client::connect(&url, ClientOptions::default()).await.unwrap_err();
    let expected = format!("cannot connect to {}: ", url.trim_start_matches("pulsar://"));
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[track_caller]
fn check(url: &str, expected: &[&str]) {
    assert_eq!(hosts(url).unwrap(), expected);
}

#[test]
fn service_addresses() {
    check("pulsar://localhost:6650", &["localhost:6650"]);
    check("pulsar://localhost/", &["localhost:6650"]);
    check("pulsar://a,b:1234", &["a:6650", "b:1234"]);
    check("pulsar://[::1]", &["[::1]:6650"]);
    check("pulsar://[::1]:7000", &["[::1]:7000"]);
}

#[test]
fn what_is_no_service_address() {
    for url in ["", "localhost:6650", "http://localhost:8080", "pulsar://", "pulsar://a/b", "pulsar://:1"] {
        let error = hosts(url).unwrap_err();
        assert!(error.to_string().contains("expected pulsar://host:port"), "{url}: {error}");
    }
    assert!(hosts("pulsar+ssl://a:6651").unwrap_err().to_string().contains("TLS is not spoken"));
}

#[test]
fn partitions_by_name() {
    assert_eq!(partition_of("persistent://t/n/x-partition-12"), 12);
    assert_eq!(partition_of("persistent://t/n/x"), -1);
    assert_eq!(partition_of("persistent://t/n/x-partition-"), -1);
}
