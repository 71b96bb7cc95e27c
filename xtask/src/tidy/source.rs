//! What several rules ask of a Rust source file.

use std::ops::RangeInclusive;

use syn::spanned::Spanned;
use syn::visit::Visit;

/// Whether the whole file is test code, judged by its path.
pub(super) fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
}

/// Lines of the file that are test code: everything under `#[cfg(test)]`, or all of a test file.
pub(super) fn test_lines(path: &str, text: &str) -> Vec<RangeInclusive<usize>> {
    if is_test_file(path) {
        return vec![1..=text.lines().count()];
    }
    let Ok(file) = syn::parse_file(text) else { return Vec::new() };
    let mut finder = TestModules::default();
    finder.visit_file(&file);
    finder.found
}

/// Whether a line lies in one of the ranges.
pub(super) fn within(line: usize, ranges: &[RangeInclusive<usize>]) -> bool {
    ranges.iter().any(|range| range.contains(&line))
}

/// First and last line of something parsed.
pub(super) fn lines_of(item: &impl Spanned) -> RangeInclusive<usize> {
    let span = item.span();
    span.start().line..=span.end().line
}

/// The line without a comment that ends it. A `//` inside a string ends it too: good enough for looking for words.
pub(super) fn without_comment(line: &str) -> &str {
    line.find("//").map_or(line, |at| &line[..at])
}

#[derive(Default)]
struct TestModules {
    found: Vec<RangeInclusive<usize>>,
}

impl<'ast> Visit<'ast> for TestModules {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.content.is_some() && module.attrs.iter().any(is_cfg_test) {
            self.found.push(lines_of(module));
        } else {
            syn::visit::visit_item_mod(self, module);
        }
    }
}

fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_modules_are_found_with_their_lines() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(test_lines("crates/a/src/a.rs", text), [3..=6]);
        assert_eq!(test_lines("crates/a/tests/a.rs", text), [1..=6]);
        assert_eq!(test_lines("crates/a/src/a.rs", "#[cfg(feature = \"x\")]\nmod x {}\n"), []);
        assert!(within(4, &[3..=6]) && !within(7, &[3..=6]));
    }
}
