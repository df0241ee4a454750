//! What the text of one file says about modules: which it declares, what it imports, which items
//! it defines and which paths it names. Whatever stands under `#[cfg(test)]` is left out.

use anyhow::anyhow;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// The segments of a path, `crate`, `self` and `super` among them.
pub(super) type Segments = Vec<String>;

/// A module as its text shows it.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The modules of `mod name;`, with the file where `#[path = "…"]` says which.
    pub(super) declared: Vec<(String, Option<String>)>,
    /// The modules of `mod name { … }`.
    pub(super) inline: Vec<(String, Scan)>,
    /// The names that `use` brings, with the paths they stand for.
    pub(super) imports: Vec<(String, Segments)>,
    /// The modules and enums of `use path::*`.
    pub(super) globs: Vec<Segments>,
    /// The items that the module itself defines.
    pub(super) defined: BTreeSet<String>,
    /// The other paths of at least two segments.
    pub(super) paths: Vec<Segments>,
}

const ITEMS: [&str; 9] =
    ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "macro_rules"];

/// Scans the text of a file. Text that is not Rust is an error.
pub(super) fn scan(text: &str) -> anyhow::Result<Scan> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow!("not Rust: {error}"))?;
    let mut scan = Scan::default();
    scan.module(tokens);
    Ok(scan)
}

impl Scan {
    fn module(&mut self, tokens: TokenStream) {
        self.tokens(&tokens.into_iter().collect::<Vec<_>>(), true);
    }

    /// `top`: these are the items of the module, not what stands inside one.
    fn tokens(&mut self, tokens: &[TokenTree], top: bool) {
        let mut rest = tokens;
        let mut file = None;
        while let Some(first) = rest.first() {
            rest = match first {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    file = file_of_attribute(rest).or(file);
                    after_attribute(rest)
                }
                TokenTree::Group(group) => {
                    self.tokens(&group.stream().into_iter().collect::<Vec<_>>(), false);
                    &rest[1..]
                }
                TokenTree::Ident(word) => self.word(&word.to_string(), rest, top, &mut file),
                _ => &rest[1..],
            };
        }
    }

    /// What begins with a word; gives the tokens after it. `file`: where `#[path = "…"]` says that
    /// the next module lies.
    fn word<'a>(
        &mut self,
        word: &str,
        tokens: &'a [TokenTree],
        top: bool,
        file: &mut Option<String>,
    ) -> &'a [TokenTree] {
        let next = tokens.get(1);
        match (word, next) {
            ("mod", Some(TokenTree::Ident(name))) => {
                if let Some(TokenTree::Group(body)) = tokens.get(2) {
                    let mut inner = Self::default();
                    inner.module(body.stream());
                    self.inline.push((name.to_string(), inner));
                } else {
                    self.declared.push((name.to_string(), file.take()));
                }
                &tokens[3.min(tokens.len())..]
            }
            // `pub(in crate::a)` uses nothing of `a`.
            ("pub", Some(TokenTree::Group(scope))) if is_scope(scope) => &tokens[2..],
            // `impl Trait + use<'a>` imports nothing.
            ("use", Some(next)) if !is_punct(next, '<') => {
                let end = tokens.iter().position(|t| is_punct(t, ';')).unwrap_or(tokens.len());
                self.tree(&[], &tokens[1..end]);
                &tokens[end..]
            }
            _ if ITEMS.contains(&word) => {
                let name = tokens[1..].iter().take(2).find_map(ident);
                if let Some(name) = name.filter(|_| top) {
                    self.defined.insert(name);
                }
                &tokens[1..]
            }
            _ => {
                let mut path = vec![word.to_owned()];
                let mut rest = &tokens[1..];
                while let Some((name, after)) = after_colons(rest).and_then(split_ident) {
                    path.push(name);
                    rest = after;
                }
                if path.len() > 1 {
                    self.paths.push(path);
                }
                rest
            }
        }
    }

    /// A tree of `use`: `a::{b, c as d, e::*}`.
    fn tree(&mut self, prefix: &[String], tokens: &[TokenTree]) {
        let mut path = prefix.to_vec();
        let mut rest = after_colons(tokens).unwrap_or(tokens);
        while let Some((name, after)) = split_ident(rest) {
            path.push(name);
            rest = match after_colons(after) {
                Some(after) => after,
                None => {
                    self.import(path, after.get(1).and_then(ident));
                    return;
                }
            };
        }
        match rest.first() {
            Some(TokenTree::Group(group)) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                for branch in inner.split(|token| is_punct(token, ',')) {
                    self.tree(&path, branch);
                }
            }
            Some(star) if is_punct(star, '*') => self.globs.push(path),
            _ => {}
        }
    }

    /// `use path` or `use path as name`.
    fn import(&mut self, mut path: Segments, name: Option<String>) {
        // `use a::{self}` brings `a`.
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        if let Some(name) = name.or_else(|| path.last().cloned()) {
            self.imports.push((name, path));
        }
    }
}

/// The tokens after an attribute, and after its item where that is for tests only.
fn after_attribute(tokens: &[TokenTree]) -> &[TokenTree] {
    let Some(TokenTree::Group(group)) = tokens.get(1) else { return &tokens[1..] };
    let mut rest = &tokens[2..];
    if !is_for_tests(group.stream()) {
        return rest;
    }
    let is_use = rest.iter().take(3).filter_map(ident).any(|word| word == "use");
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let body =
            matches!(first, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        if is_punct(first, ';') || (body && !is_use) {
            break;
        }
    }
    rest
}

/// The file of `#[path = "…"]`.
fn file_of_attribute(tokens: &[TokenTree]) -> Option<String> {
    let TokenTree::Group(group) = tokens.get(1)? else { return None };
    let attribute: Vec<_> = group.stream().into_iter().collect();
    match &attribute[..] {
        [TokenTree::Ident(name), _, TokenTree::Literal(file)] if name == "path" => {
            Some(file.to_string().trim_matches('"').to_owned())
        }
        _ => None,
    }
}

/// `cfg(test)`, or `cfg(all(test, …))`.
fn is_for_tests(attribute: TokenStream) -> bool {
    let text: String = attribute.to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// The parentheses of `pub(crate)` or `pub(in path)`, not those of a type.
fn is_scope(group: &Group) -> bool {
    let first = group.stream().into_iter().next().as_ref().and_then(ident);
    group.delimiter() == Delimiter::Parenthesis
        && first.is_some_and(|word| ["crate", "self", "super", "in"].contains(&word.as_str()))
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

fn ident(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    }
}

fn split_ident(tokens: &[TokenTree]) -> Option<(String, &[TokenTree])> {
    let (first, rest) = tokens.split_first()?;
    Some((ident(first)?, rest))
}

/// The tokens after `::`.
fn after_colons(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    match tokens {
        [a, b, rest @ ..] if is_punct(a, ':') && is_punct(b, ':') => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(paths: &[Segments]) -> Vec<String> {
        paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn finds_modules_imports_items_and_paths() {
        let scan = scan(
            "//! `crate::comment` is no path.
             pub mod a;
             #[path = \"../there.rs\"] mod there;
             pub(in crate::scope) mod b { use super::deep; fn f() {} }
             use crate::{c, d::{self, E as F}, g::*};
             pub use self::a::H;
             pub(crate) struct S<T>(T);
             const fn k() -> super::L { println!(\"crate::text\"); a::m::<crate::N>(x) }",
        )
        .unwrap();
        let file = |name: &str| Some(name.to_owned());
        assert_eq!(scan.declared, [("a".into(), None), ("there".into(), file("../there.rs"))]);
        assert_eq!(scan.inline.len(), 1);
        assert_eq!(scan.inline[0].0, "b");
        assert_eq!(scan.inline[0].1.imports.len(), 1);
        let imports: Vec<_> = scan
            .imports
            .iter()
            .map(|(name, path)| format!("{name} = {}", path.join("::")))
            .collect();
        assert_eq!(imports, ["c = crate::c", "d = crate::d", "F = crate::d::E", "H = self::a::H"]);
        assert_eq!(joined(&scan.globs), ["crate::g"]);
        assert!(scan.defined.contains("S") && scan.defined.contains("k"), "{:?}", scan.defined);
        assert!(!scan.defined.contains("f"));
        assert_eq!(joined(&scan.paths), ["super::L", "a::m", "crate::N"]);
    }

    #[test]
    fn leaves_out_what_is_for_tests() {
        let scan = scan(
            "#[cfg(test)] mod tests { use crate::a::B; }
             #[cfg(test)] mod more;
             #[cfg(test)] use crate::{c, d};
             #[cfg(all(test, unix))] #[allow(unused)] fn f() { crate::e::g() }
             #[cfg(unix)] use crate::h;",
        )
        .unwrap();
        assert_eq!(scan.imports.len(), 1);
        assert_eq!(scan.imports[0].0, "h");
        assert!(scan.declared.is_empty() && scan.inline.is_empty() && scan.paths.is_empty());
    }

    #[test]
    fn captured_lifetimes_are_no_imports() {
        let scan =
            scan("fn f<'a>(x: &'a X) -> impl Y + use<'a> { crate::a::b(x) } use c::d;").unwrap();
        assert_eq!(joined(&scan.paths), ["crate::a::b"]);
        assert_eq!(scan.imports.len(), 1);
    }
}
