use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Fake {
    live: AtomicUsize,
}

impl Shown for Fake {
    fn health(&self) -> Asked {
        let live_datanodes = self.live.load(Ordering::SeqCst);
        Box::pin(std::future::ready(Health {
            serving: true,
            live_datanodes,
        }))
    }

    fn configuration(&self) -> Vec<Entry> {
        vec![Entry {
            name: "a.b".to_owned(),
            value: "1".to_owned(),
            resource: "default",
        }]
    }

    fn checkpoint(&self) -> Taken {
        self.live.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(Summary {
            mark: crate::store::Mark { term: 1, index: 7 },
            rows: 3,
            bytes: 99,
        })))
    }

    fn group(&self, asked: Grouping) -> Regrouped {
        Box::pin(std::future::ready(Err(format!("{asked:?}"))))
    }
}

async fn page(address: SocketAddr, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path}"), "").await
}

async fn ask(address: SocketAddr, what: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{what} HTTP/1.1\r\nHost: x\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let code = text.split(' ').nth(1).unwrap().parse().unwrap();
    (code, text)
}

#[tokio::test]
async fn pages_show_health_metrics_and_configuration() {
    start_counting();
    metrics::counter!("append_http_test_total").increment(3);
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let stop = CancellationToken::new();
    let fake = Arc::new(Fake {
        live: AtomicUsize::new(1),
    });
    let server = tokio::spawn(serve(
        socket,
        Arc::clone(&fake) as Arc<dyn Shown>,
        stop.clone(),
    ));

    let (code, text) = page(address, "/health").await;
    assert_eq!(code, 200, "{text}");
    fake.live.store(0, Ordering::SeqCst);
    let (code, text) = page(address, "/health").await;
    assert_eq!(code, 503, "{text}");
    assert!(text.contains("no datanode answers"), "{text}");

    let (code, text) = page(address, "/prom").await;
    assert_eq!(code, 200);
    assert!(text.contains("append_http_test_total 3"), "{text}");

    let (code, text) = page(address, "/conf").await;
    assert_eq!(code, 200);
    assert!(text.contains("<name>a.b</name><value>1</value>"), "{text}");
    let (code, text) = page(address, "/conf?format=json&name=a.b").await;
    assert_eq!(code, 200);
    assert!(text.contains("\"key\":\"a.b\""), "{text}");
    assert_eq!(page(address, "/conf?name=nothing").await.0, 404);
    assert_eq!(page(address, "/conf?format=ini").await.0, 400);
    assert_eq!(page(address, "/shutdown").await.0, 404);

    let before = fake.live.load(Ordering::SeqCst);
    let post = "POST /admin/checkpoint";
    assert_eq!(page(address, "/admin/checkpoint").await.0, 405);
    assert_eq!(ask(address, post, "").await.0, 403);
    assert_eq!(fake.live.load(Ordering::SeqCst), before);
    let (code, text) = ask(address, post, "X-Append-Admin: 1\r\n").await;
    assert_eq!(code, 200);
    assert!(text.contains("\"index\":7"), "{text}");
    assert_eq!(fake.live.load(Ordering::SeqCst), before + 1);

    stop.cancel();
    server.await.unwrap();
}
