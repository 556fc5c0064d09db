//! The little XML that EC2 answers with: elements and text.

/// An element, with the elements in it or its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    name: String,
    children: Vec<Element>,
    text: String,
}

impl Element {
    /// The root of a document; `None` for what is none.
    pub fn parse(document: &str) -> Option<Self> {
        let mut open: Vec<Self> = Vec::new();
        let mut rest = document;
        while let Some(start) = rest.find('<') {
            let (text, tag) = rest.split_at_checked(start)?;
            if let Some(element) = open.last_mut() {
                element.text.push_str(&plain(text));
            }
            let end = tag.find('>')?;
            let (tag, after) = (tag.get(1..end)?, tag.get(end + 1..)?);
            rest = after;
            if tag.starts_with(['?', '!']) {
                continue;
            }
            if let Some(name) = tag.strip_prefix('/') {
                let closed = open.pop().filter(|element| element.name == name.trim())?;
                match open.last_mut() {
                    Some(parent) => parent.children.push(closed),
                    None => return Some(closed),
                }
                continue;
            }
            let name = tag.trim_end_matches('/').split_whitespace().next()?;
            let element = Self {
                name: name.to_owned(),
                ..Self::default()
            };
            match (tag.ends_with('/'), open.last_mut()) {
                (false, _) => open.push(element),
                (true, Some(parent)) => parent.children.push(element),
                (true, None) => return Some(element),
            }
        }
        None
    }

    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of a child; empty when there is none.
    pub fn text(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| child.text.trim())
    }

    /// The elements of a list: `<set><item>…</item></set>`.
    pub fn items(&self, set: &str) -> impl Iterator<Item = &Self> {
        let children = self.child(set).into_iter().flat_map(|set| &set.children);
        children.filter(|child| child.name == "item")
    }

    /// Anywhere below.
    pub fn find(&self, name: &str) -> Option<&Self> {
        let below = || self.children.iter().find_map(|child| child.find(name));
        self.child(name).or_else(below)
    }
}

fn plain(text: &str) -> String {
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"");
    text.replace("&apos;", "'").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_texts_are_read() {
        let document = r#"<?xml version="1.0"?>
            <Answer xmlns="http://ec2/"><set><item><id> a&amp;b </id><none/></item><item/></set></Answer>"#;
        let root = Element::parse(document).unwrap();
        let items: Vec<&Element> = root.items("set").collect();
        assert_eq!(items.len(), 2);
        assert_eq!(items[0].text("id"), "a&b");
        assert_eq!(items[0].text("none"), "");
        assert_eq!(root.find("id").unwrap().text, " a&b ");
    }

    #[test]
    fn garbage_is_no_document() {
        for garbage in ["", "hello", "<a><b></a></b>", "<a>", "<a", "{}", "<a></b>"] {
            assert_eq!(Element::parse(garbage), None, "{garbage}");
        }
    }
}
