use super::*;

fn options() -> Options {
    Options::new("/nowhere")
}

#[test]
fn site_keys_reach_the_limits() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("ozone-site.xml"),
        r#"<?xml version="1.0"?>
        <!-- a comment -->
        <configuration>
          <property><name>ozone.om.lease.soft.limit</name><value> 10s </value><final>true</final></property>
          <property><name>ozone.om.append.enabled</name><value>FALSE</value></property>
          <property><name>ozone.scm.block.size</name><value>32MB</value></property>
          <property><name>ipc.maximum.data.length</name><value>1048576</value></property>
          <property><name>some.other.key</name><value></value></property>
        </configuration>"#,
    )
    .unwrap();
    let mut options = options();
    options.read_folder(folder.path()).unwrap();
    let limits = options.limits.over(Limits::starting());
    assert_eq!(limits.soft_limit_ms, 10_000);
    assert!(!limits.append_enabled);
    assert_eq!(limits.block_size, 32 << 20);
    assert_eq!(limits.hard_limit_ms, Limits::starting().hard_limit_ms);
    assert_eq!(options.rpc.frame_bytes, 1 << 20);
}

#[test]
fn a_folder_without_the_file_sets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options();
    options.read_folder(folder.path()).unwrap();
    assert_eq!(options.limits, LimitSettings::default());
}

#[test]
fn malformed_files_and_values_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ozone-site.xml");
    for text in [
        "<configuration>",
        "<other/>",
        "not xml",
        "<configuration><property><value>x</value></property></configuration>",
        "<configuration><property><name>x</name></property></configuration>",
    ] {
        std::fs::write(&file, text).unwrap();
        let error = options().read_folder(folder.path()).unwrap_err();
        assert!(
            matches!(&error, ConfigError::Malformed { path, .. } if path.ends_with("ozone-site.xml")),
            "{text}: {error}"
        );
    }
    for (key, value) in [
        (keys::SOFT_LIMIT, "soon"),
        (keys::SOFT_LIMIT, "0"),
        (keys::HARD_LIMIT, "99999999999999999999d"),
        (keys::BLOCK_SIZE, "4 apples"),
        (keys::APPEND_ENABLED, "yes"),
        (keys::FRAME_BYTES, "1GB"),
        (keys::RENEW_BATCH, "-1"),
    ] {
        let error = options().set(key, value).unwrap_err();
        assert!(
            matches!(&error, ConfigError::Value { key: named, .. } if named == key),
            "{error}"
        );
    }
}

#[test]
fn durations_and_sizes_are_hadoops() {
    for (text, ms) in [
        ("5", 5),
        ("5ms", 5),
        ("2s", 2_000),
        ("3 m", 180_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
    ] {
        assert_eq!(value::millis(text), Ok(ms), "{text}");
    }
    for (text, bytes) in [
        ("5", 5),
        ("4k", 4096),
        ("4KB", 4096),
        ("256MB", 256 << 20),
        ("1g", 1 << 30),
        ("7b", 7),
    ] {
        assert_eq!(value::bytes(text), Ok(bytes), "{text}");
    }
}

#[test]
fn only_the_loopback_is_open_to_callers_without_authentication() {
    let wide: SocketAddr = "0.0.0.0:9862".parse().unwrap();
    assert_eq!(options().check(), Ok(()));
    for exposed in [
        Options {
            listen: wide,
            ..options()
        },
        Options {
            grpc_listen: Some(wide),
            ..options()
        },
        Options {
            http_listen: Some(wide),
            ..options()
        },
    ] {
        assert_eq!(exposed.check(), Err(ConfigError::Exposed { address: wide }));
        assert_eq!(
            Options {
                insecure: true,
                ..exposed
            }
            .check(),
            Ok(())
        );
    }
}

#[test]
fn clients_are_told_a_host_that_they_can_reach() {
    assert_eq!(options().host(), "127.0.0.1");
    let wide = Options {
        listen: "0.0.0.0:1".parse().unwrap(),
        ..options()
    };
    assert_ne!(wide.host(), "0.0.0.0");
    assert_eq!(
        Options {
            advertise: Some("om.example".to_owned()),
            ..wide
        }
        .host(),
        "om.example"
    );
}

#[test]
fn what_is_in_force_is_shown_without_secrets() {
    let mut options = options();
    options.set(keys::SOFT_LIMIT, "10s").unwrap();
    options.set("ozone.s3.secret.storage", "hush").unwrap();
    options.set("some.other.key", "shown").unwrap();
    let entries = options.effective(&options.limits.over(Limits::starting()));
    let of = |name: &str| entries.iter().find(|entry| entry.name == name).unwrap();
    assert_eq!(
        (
            of(keys::SOFT_LIMIT).value.as_str(),
            of(keys::SOFT_LIMIT).resource
        ),
        ("10000ms", "site")
    );
    assert_eq!(of(keys::APPEND_ENABLED).resource, "default");
    assert_eq!(of(keys::SEGMENT_BYTES).value, (64 << 20).to_string());
    assert_eq!(of(keys::CONTAINER_BYTES).value, (1 << 30).to_string());
    assert_eq!(of("ozone.s3.secret.storage").value, REDACTED);
    assert_eq!(of("some.other.key").value, "shown");
}
