//! Hadoop's configuration XML: `<configuration><property><name/><value/></property></configuration>`.

/// Names and values in the order of the file.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let document = roxmltree::Document::parse(text).map_err(|error| error.to_string())?;
    let root = document.root_element();
    if root.tag_name().name() != "configuration" {
        return Err(format!(
            "the root element is <{}>, not <configuration>",
            root.tag_name().name()
        ));
    }
    let mut properties = Vec::new();
    for property in root.children().filter(|node| node.has_tag_name("property")) {
        let field = |name: &str| {
            property
                .children()
                .find(|node| node.has_tag_name(name))
                .map(|node| node.text().unwrap_or_default().trim().to_owned())
        };
        let line = document.text_pos_at(property.range().start).row;
        let name = field("name")
            .filter(|name| !name.is_empty())
            .ok_or_else(|| format!("the property in line {line} has no name"))?;
        let value = field("value")
            .ok_or_else(|| format!("the property {name} in line {line} has no value"))?;
        properties.push((name, value));
    }
    Ok(properties)
}
