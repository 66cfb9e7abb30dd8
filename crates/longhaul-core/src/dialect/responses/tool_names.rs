//! Names of the tools that an item defines.

use crate::json::scanner::values_after;

/// Returns every name below `item`, undecoded, at any depth. A parameter of a tool that is called
/// `name` adds none.
pub(super) fn tool_names(item: &str) -> impl Iterator<Item = &str> {
    let values = values_after(item, "\"name\"");
    values.filter_map(|value| Some(value.strip_prefix('"')?.split_once('"')?.0))
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
