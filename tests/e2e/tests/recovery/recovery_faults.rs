//! Rows of known faults that need no dying writer.

use append_client::{CreateOptions, ErrorKind};
use append_e2e::{append, get, path, put};

use crate::{LAYOUTS, server};

#[tokio::test]
async fn fault_02_a_close_returns_only_when_the_lease_is_free() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        let file = path("loop");
        put(&fs, &file, b"").await;
        for _ in 0..100 {
            append(&fs, &file, b"\nbar").await;
        }
        assert_eq!(get(&fs, &file).await, b"\nbar".repeat(100));
    }
}

#[tokio::test]
async fn fault_35_an_empty_file_is_a_legal_prefix() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        let file = path("empty");
        put(&fs, &file, b"").await;
        append(&fs, &file, b"").await;
        append(&fs, &file, b"abc").await;
        assert_eq!(get(&fs, &file).await, b"abc");
    }
}

#[tokio::test]
async fn fault_37_synced_bytes_and_a_recovery_call_are_there() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        let file = path("f");
        let stream = fs.create(&file, &CreateOptions::default()).await.unwrap();
        stream.write(b"durable").await.unwrap();
        stream.hsync().await.unwrap();
        assert_eq!(get(&fs, &file).await, b"durable");
        assert!(!fs.is_file_closed(&file).await.unwrap());
        // Our own writer may be fenced at once, and knows it then.
        assert!(fs.recover_lease(&file).await.unwrap());
        assert!(fs.is_file_closed(&file).await.unwrap());
        assert!(fs.recover_lease(&file).await.unwrap());
        stream.write(b"x").await.ok();
        let error = stream.hsync().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StaleSession, "{error}");
        assert!(fs.capabilities(&file).await.unwrap().lease_recovery);
        assert_eq!(get(&fs, &file).await, b"durable");
    }
}

#[tokio::test]
async fn fault_38_appending_to_nothing_says_so_or_makes_it() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        let file = path("no/such/file");
        let error = fs.append(&file).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains(&file), "{error}");
        let error = fs.recover_lease(&file).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.text().contains("File does not exist"), "{error}");
        let error = fs.is_file_closed(&file).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let stream = fs
            .append(&file)
            .create_if_missing(true)
            .open()
            .await
            .unwrap();
        stream.write(b"made").await.unwrap();
        stream.close().await.unwrap();
        assert_eq!(get(&fs, &file).await, b"made");
        let error = fs.recover_lease(&path("no/such")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsDirectory, "{error}");
        let error = fs.is_file_closed(&path("no/such")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsDirectory, "{error}");
    }
}
