//! Names of the tools that an item defines.

use memchr::memmem;

/// Key of a tool's name, as tools are spelt.
const NAME_KEY: &str = "\"name\"";

/// Returns every name below `item`, undecoded, at any depth. A parameter of a tool that is called
/// `name` adds none.
pub(super) fn tool_names(item: &str) -> impl Iterator<Item = &str> {
    memmem::find_iter(item.as_bytes(), NAME_KEY).filter_map(|at| {
        let rest = item.get(at + NAME_KEY.len()..)?.trim_start();
        let value = rest.strip_prefix(':')?.trim_start().strip_prefix('"')?;
        let (name, _) = value.split_once('"')?;
        Some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_namespaces_and_their_tools() {
        let item = r#"{"tools":[{"type":"namespace","name" : "app","tools":[{"name":"update",
            "parameters":{"properties":{"name":{"type":"string"}}}}]}]}"#;
        assert_eq!(tool_names(item).collect::<Vec<_>>(), ["app", "update"]);
    }
}
