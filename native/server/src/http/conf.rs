//! The configuration as Hadoop's `/conf` writes it.

use crate::config::Entry;
use std::fmt::Write;

pub(super) fn xml(entries: &[Entry]) -> String {
    let mut page = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n<configuration>\n",
    );
    for entry in entries {
        let _ = writeln!(
            page,
            "<property><name>{}</name><value>{}</value><final>false</final><source>{}</source></property>",
            escaped(&entry.name),
            escaped(&entry.value),
            entry.resource
        );
    }
    page.push_str("</configuration>\n");
    page
}

pub(super) fn json(entries: &[Entry]) -> String {
    let properties: Vec<_> = entries
        .iter()
        .map(|entry| {
            serde_json::json!({
                "key": entry.name,
                "value": entry.value,
                "isFinal": false,
                "resource": entry.resource,
            })
        })
        .collect();
    serde_json::json!({ "properties": properties }).to_string()
}

/// Text in XML; characters that XML cannot hold are left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            control if control.is_control() && !matches!(control, '\t' | '\n' | '\r') => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_can_be_read_back() {
        let entries = [Entry {
            name: "a.key".to_owned(),
            value: "<b> & \"c\"\u{0}".to_owned(),
            resource: "site",
        }];
        let page = xml(&entries);
        let document = roxmltree::Document::parse(&page).unwrap();
        let value = document
            .descendants()
            .find(|node| node.has_tag_name("value"))
            .unwrap();
        assert_eq!(value.text(), Some("<b> & \"c\""));
        let read: serde_json::Value = serde_json::from_str(&json(&entries)).unwrap();
        assert_eq!(read["properties"][0]["key"], "a.key");
    }
}
