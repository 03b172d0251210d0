//! The README's five minutes, step by step as they stand there: files are written, commands run in one
//! shell, and what a `text` block shows must be what the commands before it printed.

use std::fs;
use std::path::Path;
use std::process::Command;

use weir_tests::weir::Home;
use weir_tests::{python, target, workspace};

const SECTION: &str = "## A filter in five minutes";

/// A fenced block: its language, the file that it is, and its text.
struct Block<'a> {
    language: &'a str,
    title: Option<&'a str>,
    text: String,
}

fn blocks(section: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = section.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
        let text = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        blocks.push(Block { language, title: rest.strip_prefix("title="), text });
    }
    blocks
}

/// One script of all `sh` blocks; what each prints comes between two marks.
fn script(blocks: &[Block<'_>]) -> (String, Vec<String>) {
    let (mut script, mut expected) = (String::from("set -euo pipefail\n"), vec![String::new()]);
    for block in blocks {
        match block.language {
            "sh" => {
                script.push_str(&block.text);
                script.push_str("echo '--'\n");
                expected.push(String::new());
            }
            "text" => *expected.last_mut().expect("not empty") = block.text.clone(),
            _ => {}
        }
    }
    (script, expected[1..].to_vec())
}

#[test]
fn five_minutes_are_as_the_readme_says() {
    let Some(python) = python::interpreter() else { return };
    let readme = fs::read_to_string(workspace().join("README.md")).unwrap();
    let section = readme.split(SECTION).nth(1).expect("the README has the section");
    let section = section.split("\n## ").next().expect("a section ends");
    let blocks = blocks(section);

    let weir = Home::new().start();
    // What lies beside the checkout for a reader lies elsewhere for a test.
    let elsewhere = |text: &str| {
        text.replace("../weir/plugins/", &format!("{}/", weir.home().plugins().display()))
            .replace("../weir/", &format!("{}/", workspace().display()))
    };
    let folder = tempfile::tempdir().unwrap();
    for block in &blocks {
        let Some(title) = block.title else { continue };
        let file = folder.path().join(title);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, elsewhere(&block.text)).unwrap();
    }
    let (script, expected) = script(&blocks);
    assert!(expected.iter().filter(|text| !text.is_empty()).count() >= 3, "the README shows what comes out");

    let path = [target().join("debug").as_path(), python.parent().unwrap(), Path::new("")]
        .map(|folder| folder.display().to_string())
        .join(":");
    let output = Command::new("bash")
        .args(["-c", &elsewhere(&script)])
        .current_dir(folder.path())
        .env("PATH", path + &std::env::var("PATH").unwrap())
        .env("WEIR_URL", format!("http://{}", weir.admin))
        .env("WEIR_SERVICE_URL", weir.service_url())
        // Dependencies are those that this workspace has fetched already, built once for all runs.
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TARGET_DIR", folder.path().join("urgent/target"))
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "a step failed\n--- printed\n{out}\n--- said\n{err}");
    let printed: Vec<&str> = out.split("--\n").collect();
    for (step, expected) in expected.iter().enumerate().filter(|(_, expected)| !expected.is_empty()) {
        assert_eq!(printed[step], expected, "what step {} printed", step + 1);
    }
}
