//! Who may know whom, read from the manifests: the table of `ARCHITECTURE.md`, as a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use weir_tests::workspace as root;

/// What each crate of ours may use of ours, in `dependencies` and `build-dependencies`.
const MAY_USE: &[(&str, &[&str])] = &[
    ("weir-wire", &[]),
    ("weir-plugin-derive", &[]),
    ("weir-plugin-api", &["weir-plugin-derive"]),
    ("weir-extension", &["weir-plugin-api"]),
    ("weir-listing", &["weir-extension"]),
    ("weir-filter", &["weir-extension"]),
    ("weir-store", &[]),
    ("weir-broker", &["weir-store", "weir-listing", "weir-filter"]),
    ("weir-client", &["weir-wire"]),
    (
        "weir",
        &[
            "weir-wire",
            "weir-extension",
            "weir-listing",
            "weir-filter",
            "weir-store",
            "weir-broker",
            "weir-client",
        ],
    ),
];

/// What crates from elsewhere a room must not name, whatever it may use of ours.
const MUST_NOT_USE: &[(&str, &[&str])] = &[
    ("weir-wire", &["tokio", "axum", "reqwest", "fjall"]),
    ("weir-plugin-api", &["tokio", "tracing"]),
    ("weir-extension", &["tokio", "axum", "prost", "fjall"]),
    ("weir-listing", &["axum", "prost", "fjall", "wasmtime", "abi_stable"]),
    ("weir-filter", &["axum", "prost", "fjall", "wasmtime", "abi_stable"]),
    ("weir-store", &["axum", "prost", "wasmtime", "abi_stable"]),
    ("weir-broker", &["axum", "prost", "fjall", "wasmtime", "abi_stable", "reqwest"]),
    ("weir-client", &["axum", "fjall", "wasmtime", "abi_stable"]),
    ("weir", &["wasmtime", "abi_stable", "fjall"]),
];

/// Dependencies of each crate of the workspace, by its package name; those of tests left out.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let manifest = read(&root().join("Cargo.toml"));
    let members = manifest["workspace"]["members"].as_array().expect("a workspace has members");
    let mut found = BTreeMap::new();
    for pattern in members.iter().map(|member| member.as_str().expect("a member is a path")) {
        for folder in folders(pattern) {
            let manifest = read(&folder.join("Cargo.toml"));
            let name = manifest["package"]["name"].as_str().expect("a package has a name").to_owned();
            let mut uses = BTreeSet::new();
            collect(&manifest, &mut uses);
            if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
                targets.values().for_each(|target| collect(target, &mut uses));
            }
            found.insert(name, uses);
        }
    }
    found
}

fn collect(table: &toml::Value, into: &mut BTreeSet<String>) {
    for section in ["dependencies", "build-dependencies"] {
        if let Some(table) = table.get(section).and_then(toml::Value::as_table) {
            into.extend(table.keys().cloned());
        }
    }
}

fn read(manifest: &Path) -> toml::Value {
    let text = std::fs::read_to_string(manifest).unwrap_or_else(|e| panic!("{}: {e}", manifest.display()));
    toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", manifest.display()))
}

fn folders(pattern: &str) -> Vec<std::path::PathBuf> {
    let Some(parent) = pattern.strip_suffix("/*") else { return vec![root().join(pattern)] };
    let entries = std::fs::read_dir(root().join(parent)).expect("a member's parent is a folder");
    entries.map(|e| e.unwrap().path()).filter(|path| path.join("Cargo.toml").is_file()).collect()
}

#[test]
fn rooms_know_only_whom_they_may() {
    let dependencies = dependencies();
    let rooms: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    for (room, uses) in &dependencies {
        let ours: BTreeSet<&str> =
            uses.iter().map(String::as_str).filter(|u| u.starts_with("weir")).collect();
        let allowed: BTreeSet<&str> = match rooms.get(room.as_str()) {
            Some(allowed) => allowed.iter().copied().collect(),
            // Guests, samples and the tests' harness know the contract, and nothing of the host.
            None => ["weir-plugin-api"].into(),
        };
        let excess: Vec<_> = ours.difference(&allowed).collect();
        assert!(
            excess.is_empty(),
            "{room} may not know {excess:?}; see ARCHITECTURE.md, \"Who may know whom\""
        );
    }
    for room in rooms.keys() {
        assert!(dependencies.contains_key(*room), "{room} is in the table and not in the workspace");
    }
}

#[test]
fn rooms_leave_to_others_what_is_not_theirs() {
    let dependencies = dependencies();
    for (room, banned) in MUST_NOT_USE {
        let uses = &dependencies[*room];
        let found: Vec<_> = banned.iter().filter(|b| uses.contains(**b)).collect();
        assert!(found.is_empty(), "{room} must not use {found:?}; see ARCHITECTURE.md");
    }
}

#[test]
fn unsafe_code_stays_in_its_three_places() {
    let allowed = ["plugin-api/", "host/extension/src/native.rs", "host/extension/src/compiled.rs"];
    let mut strays = Vec::new();
    let mut folders = vec![root().join("host"), root().join("plugin-api"), root().join("plugins")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|e| e != "rs") {
                continue;
            }
            let inside = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let holds = text.lines().any(|line| {
                let code = line.split("//").next().unwrap_or_default();
                code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl")
            });
            if holds && !allowed.iter().any(|place| inside.starts_with(place)) {
                strays.push(inside);
            }
        }
    }
    assert!(strays.is_empty(), "unsafe code outside its three places: {strays:?}; see ARCHITECTURE.md");
}
