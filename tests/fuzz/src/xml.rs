//! Hadoop's configuration files, as the client and the server read them, and the values in them.

use append_client::Config;
use append_server::Options;

use crate::scratch;

/// Keys whose values are parsed.
const KEYS: [&str; 12] = [
    "ozone.om.address",
    "ozone.om.service.ids",
    "ozone.client.stream.buffer.size",
    "ipc.client.connect.timeout",
    "ozone.replication",
    "ozone.om.lease.soft.limit",
    "ozone.scm.block.size",
    "ipc.maximum.data.length",
    "libappend.om.file.blocks.max",
    "ozone.om.append.enabled",
    "libappend.om.log.segment.bytes",
    "a",
];

pub(crate) fn fuzz(data: &[u8]) {
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    std::fs::write(folder.path().join("core-site.xml"), data).unwrap();
    std::fs::write(folder.path().join("ozone-site.xml"), data).unwrap();
    match Config::from_directory(folder.path()) {
        Ok(config) => {
            for key in KEYS {
                // Values that lead to each other without end are an error.
                let _ = config.expand(key);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let mut options = Options::any_port(folder.path());
    if options.read_folder(folder.path()).is_ok() {
        let _ = options.check();
    }
    // Values alone, whatever the XML around them.
    if let Ok(text) = std::str::from_utf8(data) {
        for key in KEYS {
            let _ = options.set(key, text);
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let file = |properties: &str| {
        format!("<?xml version=\"1.0\"?>\n<configuration>{properties}</configuration>\n")
    };
    let property = |name: &str, value: &str| {
        format!("<property><name>{name}</name><value>{value}</value></property>")
    };
    let all: String = KEYS.iter().map(|key| property(key, "16MB")).collect();
    [
        file(&all),
        file("<property name=\"a\" value=\"b\"/>"),
        file("<property><name> a </name><value>x &lt; y</value><final>true</final></property>"),
        file(&(property("a", "${b}") + &property("b", "${a}${a}"))),
        file(&property("ozone.om.lease.soft.limit", "60s")),
        file("<!-- c --><![CDATA[x]]>"),
        "<!DOCTYPE x [<!ENTITY a \"b\"><!ENTITY c \"&a;&a;\">]><configuration>&c;</configuration>"
            .to_owned(),
        format!("{}{}", "<a>".repeat(2_000), "</a>".repeat(2_000)),
        "1.5GB".to_owned(),
        "18446744073709551615 TB".to_owned(),
        "60s".to_owned(),
    ]
    .map(String::into_bytes)
    .into()
}
