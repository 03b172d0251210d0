use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::join;
use tokio::net::TcpListener;

use super::model::{Binding, Filter};
use super::*;
use crate::testing::soon;

/// A server that takes one request and answers it with these bytes.
struct Once {
    listener: TcpListener,
}

impl Once {
    async fn start() -> (Self, Admin) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (Self { listener }, Admin::new(&url, Some("secret".into())).unwrap())
    }

    /// Gives the request: its first line, its headers in lower case, its body.
    async fn answer(self, status: &str, body: &str) -> (String, String, String) {
        let (mut stream, _) = soon(self.listener.accept()).await.unwrap();
        let mut request = Vec::new();
        let (head, length) = loop {
            assert!(soon(stream.read_buf(&mut request)).await.unwrap() > 0);
            let text = String::from_utf8_lossy(&request).to_string();
            let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
            let head = head.to_owned();
            let length = head
                .to_lowercase()
                .split("content-length: ")
                .nth(1)
                .map_or(0, |rest| rest.lines().next().unwrap().parse::<usize>().unwrap());
            break (head, length);
        };
        while request.len() < head.len() + 4 + length {
            assert!(soon(stream.read_buf(&mut request)).await.unwrap() > 0);
        }
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
        let sent = String::from_utf8_lossy(&request[head.len() + 4..]).to_string();
        let (line, headers) = head.split_once("\r\n").unwrap();
        (line.to_owned(), headers.to_lowercase(), sent)
    }
}

#[tokio::test]
async fn a_component_is_sent_with_the_token() {
    let (server, admin) = Once::start().await;
    let answer =
        r#"{"class":"demo.Late","crc32":"00000007","sha256":"ab","unchanged":false,"replaced":true}"#;
    let (registered, (line, headers, body)) = join!(
        admin.register("demo.Late", Bytes::from_static(b"wasm"), None, false),
        server.answer("200 OK", answer)
    );
    let registered = registered.unwrap();
    assert_eq!((registered.crc32.as_str(), registered.replaced), ("00000007", true));
    assert_eq!(line, "PUT /weir/v1/extensions/demo.Late HTTP/1.1");
    assert!(headers.contains("authorization: bearer secret"), "{headers}");
    assert_eq!(body, "wasm");
}

#[tokio::test]
async fn a_configuration_goes_along_in_a_header() {
    let (server, admin) = Once::start().await;
    let config = serde_json::json!({ "city": "Köln 🚀", "minutes": 5 });
    let (_, (line, headers, body)) = join!(
        admin.register("demo.Late", Bytes::from_static(b"wasm"), Some(&config), true),
        server.answer("200 OK", "{}")
    );
    let header = headers.lines().find_map(|line| line.strip_prefix("x-weir-config: ")).expect("it is there");
    assert!(header.is_ascii(), "{header}");
    assert_eq!(line, "PUT /weir/v1/extensions/demo.Late?force=true HTTP/1.1");
    // The harness shows headers in lower case.
    let sent: Value = serde_json::from_str(header).unwrap();
    assert_eq!(sent, serde_json::json!({ "city": "köln 🚀", "minutes": 5 }));
    assert_eq!(body, "wasm");
}

#[tokio::test]
async fn a_refusal_gives_the_servers_reason() {
    let (server, admin) = Once::start().await;
    let answer = r#"{"reason":"class demo.Late is bound"}"#;
    let (removed, (line, ..)) =
        join!(admin.remove_extension("demo.Late", true), server.answer("409 Conflict", answer));
    let error = removed.unwrap_err();
    assert_eq!(error.to_string(), "class demo.Late is bound (DELETE /weir/v1/extensions/demo.Late: 409)");
    assert_eq!(error.status(), Some(StatusCode::CONFLICT));
    assert_eq!(line, "DELETE /weir/v1/extensions/demo.Late?force=true HTTP/1.1");
}

#[tokio::test]
async fn a_refusal_without_reason_gives_what_there_is() {
    for (body, reason) in [("", "Not Found"), ("no such page", "no such page"), (r#"{"x":1}"#, r#"{"x":1}"#)]
    {
        let (server, admin) = Once::start().await;
        let (answer, _) = join!(admin.extensions(), server.answer("404 Not Found", body));
        let error = answer.unwrap_err().to_string();
        assert_eq!(error, format!("{reason} (GET /weir/v1/extensions: 404)"));
    }
}

#[tokio::test]
async fn names_are_encoded_once_and_listing_properties_twice() {
    let (server, admin) = Once::start().await;
    let properties = [("env".to_owned(), "a,b".to_owned())];
    let (topics, (line, ..)) = join!(
        admin.topics("public/default", &properties),
        server.answer("200 OK", r#"["persistent://public/default/x"]"#)
    );
    assert_eq!(topics.unwrap(), ["persistent://public/default/x"]);
    assert_eq!(line, "GET /admin/v2/persistent/public/default?properties=env%3Da%252Cb HTTP/1.1");

    let (server, admin) = Once::start().await;
    let (properties, (line, ..)) =
        join!(admin.properties("persistent://public/default/a/b c"), server.answer("204 No Content", ""));
    assert!(properties.unwrap().is_empty());
    assert_eq!(line, "GET /admin/v2/persistent/public/default/a%2Fb%20c/properties HTTP/1.1");
}

#[tokio::test]
async fn partitioned_topics_with_properties_have_a_type_of_their_own() {
    let (server, admin) = Once::start().await;
    let properties = [("env".to_owned(), "prod".to_owned())].into();
    let (made, (line, headers, body)) =
        join!(admin.create_topic("t/n/x", Some(3), &properties), server.answer("204 No Content", ""));
    made.unwrap();
    assert_eq!(line, "PUT /admin/v2/persistent/t/n/x/partitions HTTP/1.1");
    assert!(headers.contains("content-type: application/vnd.partitioned-topic-metadata+json"), "{headers}");
    assert_eq!(body, r#"{"partitions":3,"deleted":false,"properties":{"env":"prod"}}"#);
}

#[tokio::test]
async fn bindings_are_written_as_they_are_read() {
    let (server, admin) = Once::start().await;
    let binding = Binding {
        topic: Some("persistent://public/default/flights".into()),
        subscription: Some("late".into()),
        filters: vec![
            Filter::Class("demo.Late".into()),
            Filter::Configured { class: "x.Y".into(), config: Some(serde_json::json!({"minutes": 5})) },
        ],
        on_failure: Some("withhold".into()),
        ..Binding::default()
    };
    let (put, (line, _, body)) = join!(admin.put_binding(&binding), server.answer("204 No Content", ""));
    put.unwrap();
    assert_eq!(line, "PUT /weir/v1/bindings HTTP/1.1");
    assert_eq!(
        body,
        r#"{"topic":"persistent://public/default/flights","subscription":"late","#.to_owned()
            + r#""filters":["demo.Late",{"class":"x.Y","config":{"minutes":5}}],"on-failure":"withhold"}"#
    );

    let (server, admin) = Once::start().await;
    let answer = format!("[{body}]");
    let (list, _) = join!(admin.bindings(), server.answer("200 OK", &answer));
    assert_eq!(list.unwrap(), std::slice::from_ref(&binding));

    let (server, admin) = Once::start().await;
    let (removed, (line, ..)) = join!(admin.remove_binding(&binding), server.answer("204 No Content", ""));
    removed.unwrap();
    assert_eq!(
        line,
        "DELETE /weir/v1/bindings?topic=persistent%3A%2F%2Fpublic%2Fdefault%2Fflights&subscription=late HTTP/1.1"
    );
}

#[tokio::test]
async fn what_a_newer_server_says_of_an_extension_is_kept() {
    let (server, admin) = Once::start().await;
    let answer = r#"{"class":"demo.Late","kinds":["filter"],"form":"component","counts":{"calls":3}}"#;
    let (shown, _) = join!(admin.extension("demo.Late"), server.answer("200 OK", answer));
    let shown = shown.unwrap();
    assert_eq!((shown.form.as_str(), &shown.other["counts"]["calls"]), ("component", &Value::from(3)));
}

#[tokio::test]
async fn nobody_there_is_told() {
    let (server, admin) = Once::start().await;
    drop(server);
    let error = admin.tenants().await.unwrap_err();
    assert!(matches!(error, AdminError::Transport { .. }), "{error}");
    assert!(error.to_string().starts_with("GET /admin/v2/tenants: "), "{error}");
}

#[test]
fn addresses() {
    for url in ["", "localhost:8080", "https://localhost:8443", "data:x"] {
        let error = Admin::new(url, None).unwrap_err().to_string();
        assert!(error.contains("expected http://host:port"), "{url}: {error}");
    }
    assert!(Admin::new("http://localhost:8080/", None).is_ok());
}

#[tokio::test]
async fn lines_are_read_past_those_of_spaces_and_to_the_end() {
    let (server, admin) = Once::start().await;
    let body = "{\"number\":1,\"text\":\"a\"}\n    \n{\"number\":2}\n{\"numb";
    let (lines, (line, ..)) =
        join!(admin.extension_logs("demo.Late", 5, true), server.answer("200 OK", body));
    assert_eq!(line, "GET /weir/v1/extensions/demo.Late/logs?lines=5&follow=true HTTP/1.1");
    let mut lines = lines.unwrap();
    let first = lines.next().await.unwrap().unwrap();
    assert_eq!((first.number, first.text.as_str()), (1, "a"));
    assert_eq!(lines.next().await.unwrap().map(|line| line.number), Some(2));
    let error = lines.next().await.unwrap_err().to_string();
    assert!(error.contains("it ends within a line"), "{error}");

    let (server, admin) = Once::start().await;
    let refused = r#"{"reason":"16 others follow log lines"}"#;
    let (lines, _) =
        join!(admin.extension_logs("demo.Late", 5, true), server.answer("503 Service Unavailable", refused));
    let error = lines.err().unwrap();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(503));
    assert!(error.to_string().contains("16 others"), "{error}");
}
