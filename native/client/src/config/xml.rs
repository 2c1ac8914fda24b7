//! Hadoop's configuration files: properties in XML. Reads text, knows no key.

use crate::Result;
use crate::error::Error;

/// One property of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Property {
    pub(super) name: String,
    pub(super) value: String,
    /// Later files must not change it.
    pub(super) is_final: bool,
}

/// The properties of a file, in its order. `file` names it in errors. A property without a value is passed over, as Hadoop does.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Property>> {
    let malformed = |what: String| Error::invalid(what).at("read configuration", file);
    let document =
        roxmltree::Document::parse(text).map_err(|e| malformed(format!("malformed XML: {e}")))?;
    let root = document.root_element();
    let place = |node: roxmltree::Node<'_, '_>| {
        let at = document.text_pos_at(node.range().start);
        format!("line {}, column {}", at.row, at.col)
    };
    if root.tag_name().name() != "configuration" {
        return Err(malformed(format!(
            "the root element is <{}> instead of <configuration>",
            root.tag_name().name()
        )));
    }
    let mut properties = Vec::new();
    for node in root.children().filter(roxmltree::Node::is_element) {
        if node.tag_name().name() != "property" {
            return Err(malformed(format!(
                "unexpected element <{}> at {}",
                node.tag_name().name(),
                place(node)
            )));
        }
        let text = |name: &str| {
            node.children()
                .find(|child| child.tag_name().name() == name)
                .map(|child| child.text().unwrap_or_default().trim().to_owned())
                .or_else(|| node.attribute(name).map(str::to_owned))
        };
        let name = text("name")
            .filter(|name| !name.is_empty())
            .ok_or_else(|| malformed(format!("a property without a name at {}", place(node))))?;
        let is_final = text("final").as_deref() == Some("true");
        if let Some(value) = text("value") {
            properties.push(Property {
                name,
                value,
                is_final,
            });
        }
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn reads_properties_in_order() {
        let text = r#"<?xml version="1.0"?>
            <?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
            <!-- a comment -->
            <configuration>
              <property><name> a.b </name><value>
                1
              </value><description>d</description></property>
              <property><name>c</name><value>x &lt; y</value><final>true</final></property>
              <property><name>empty</name><value/></property>
              <property><name>unset</name></property>
              <property name="short" value="form"/>
            </configuration>"#;
        let found: Vec<_> = parse("f", text)
            .unwrap()
            .into_iter()
            .map(|p| (p.name, p.value, p.is_final))
            .collect();
        let expected = [
            ("a.b", "1", false),
            ("c", "x < y", true),
            ("empty", "", false),
            ("short", "form", false),
        ];
        assert_eq!(
            found,
            expected.map(|(n, v, f)| (n.to_owned(), v.to_owned(), f))
        );
    }

    #[test]
    fn malformed_files_are_named_with_the_place() {
        let cases = [
            ("", "malformed XML"),
            ("<configuration><property>", "malformed XML"),
            (
                "<!DOCTYPE x [<!ENTITY a \"b\">]><configuration/>",
                "malformed XML",
            ),
            ("<other/>", "<other>"),
            (
                "<configuration>\n<prop/></configuration>",
                "<prop> at line 2",
            ),
            (
                "<configuration>\n\n<property><value>1</value></property></configuration>",
                "without a name at line 3",
            ),
        ];
        for (text, expected) in cases {
            let error = parse("core-site.xml", text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
            let shown = error.to_string();
            assert!(
                shown.contains("core-site.xml") && shown.contains(expected),
                "{shown}"
            );
        }
    }
}
