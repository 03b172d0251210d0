use super::*;

#[track_caller]
fn matches(pattern: &str, yes: &[&str], no: &[&str]) {
    let compiled = Pattern::new(pattern).unwrap();
    for name in yes {
        assert!(compiled.is_match(name), "{pattern} should match {name}");
    }
    for name in no {
        assert!(!compiled.is_match(name), "{pattern} should not match {name}");
    }
}

#[track_caller]
fn inexact(pattern: &str) {
    let result = Pattern::new(pattern);
    assert!(matches!(result, Err(PatternError::Inexact(_))), "{pattern}: {result:?}");
}

#[track_caller]
fn invalid(pattern: &str, because: &str) {
    let Err(PatternError::Invalid(reason)) = Pattern::new(pattern) else {
        panic!("{pattern} should be invalid");
    };
    assert!(reason.contains(because), "{pattern}: {reason}");
}

// Vectors of Pulsar's TopicListTest and TopicsPatternTest; names without their domain.
const NAMES: [&str; 4] = [
    "my-property/my-ns/pattern-topic-1",
    "my-property/my-ns/pattern-topic-2",
    "my-property/my-ns/hello-3",
    "my-property/my-ns/hello-4",
];

#[test]
fn pulsar_s_own_vectors() {
    matches("persistent://my-property/my-ns/.*", &NAMES, &[]);
    matches("my-property/my-ns/.*", &NAMES, &["my-property/my-ns2/x"]);
    matches("persistent://my-property/my-ns/pattern-topic.*", &NAMES[..2], &NAMES[2..]);
    matches("^persistent://my-property/my-ns/hello.*", &NAMES[2..], &NAMES[..2]);
    matches("non-persistent://my-property/my-ns/.*", &NAMES, &[]);
}

#[test]
fn the_domain_is_dropped_as_pulsar_does() {
    #[track_caller]
    fn check(pattern: &str, without: &str) {
        assert_eq!(without_domain(pattern), Ok(without.to_owned()));
    }
    check("persistent://public/default/tp", "public/default/tp");
    check("non-persistent://public/default/tp", "public/default/tp");
    check("^persistent://x", "^x");
    check("^non-persistent://x", "^x");
    check(r"^\Qpersistent://a/b/c\E$", r"^\Qa/b/c\E$");
    check("public/default/tp", "public/default/tp");
    check("persistent://a://b", "a");
    check(".*", ".*");
    invalid("xx://public/default/tp", "domain is \"xx\"");
    invalid("(persistent|non-persistent)://a/b/c", "domain is");
    invalid("persistent://", "nothing follows");
}

#[test]
fn the_whole_name_is_compared() {
    // B05
    let (tp, tp2, xtp) = ("public/default/tp", "public/default/tp2", "public/default/xtp");
    for prefix in ["", "^"] {
        let pattern = |local: &str| format!("{prefix}persistent://public/default/{local}");
        matches(&pattern("tp"), &[tp], &[tp2, xtp]);
        matches(&pattern("tp$"), &[tp], &[tp2, xtp]);
        matches(&pattern("tp.*"), &[tp, tp2], &[xtp]);
        matches(&pattern(".*tp"), &[tp, xtp], &[tp2]);
        matches(&pattern("tp|.*2"), &[tp, tp2], &[xtp]);
    }
}

#[test]
fn quotes_of_the_java_client() {
    matches(r"^\Qpersistent://public/default/a.b\E$", &["public/default/a.b"], &["public/default/axb"]);
    matches(r"\Qa*\E+", &["a*", "a**"], &["a", "aa"]);
    matches(r"a\Q(\", &["a(\\"], &["a("]);
    matches(r"\Q\E", &[""], &["a"]);
}

#[test]
fn classes_are_ascii_as_in_java() {
    matches(r"\w+", &["a_9"], &["grüße", "a-b", ""]);
    matches(r"\W", &["ü", "-"], &["a"]);
    matches(r"[\w.-]+", &["a.b-c"], &["ü"]);
    matches(r"\d{1,8}", &["1", "12345678"], &["123456789", "٣"]);
    matches(r"\D\S\s", &["ab ", "٣x "], &["1b "]);
    matches(r".*\bx\b.*", &["a-x-b", "üx"], &["axb"]);
    matches(r"[]a]", &["]", "a"], &["b"]);
    matches(r"[^]a]", &["b"], &["]", "a"]);
}

#[test]
fn what_both_know_means_the_same() {
    matches("(?i)ORDERS-.*", &["orders-eu"], &["order"]);
    matches("(?:a|b){2}", &["ab", "bb"], &["a", "abc"]);
    matches("(?<x>a)(?P<y>b)", &["ab"], &["a"]);
    matches("a+?b*?c??", &["aab", "ac"], &["b"]);
    matches(r"\<a\>", &["<a>"], &["a"]);
    matches(r"a\-b\/c\_", &["a-b/c_"], &[]);
    matches("a{2,}", &["aa", "aaa"], &["a"]);
    matches("grüße-[ä-ü]", &["grüße-ö"], &["grüße-a"]);
}

#[test]
fn what_java_means_otherwise_is_left_to_the_client() {
    // B06 (b), and what compiles in Rust with another meaning.
    inexact("tenant/namespace/(?!(test2|test3|other)-).+-topic(-.*)?");
    for pattern in [
        "(?=a)a",
        "a(?<=a)",
        "(?<!b)a",
        "(?>a|ab)c",
        r"(a)\1",
        r"\k<x>",
        "a++",
        "a*+",
        "a?+",
        "a{2}+",
        "a**",
        "a{2}{3}",
        "a*??",
        r"\h",
        r"\R",
        r"\p{Alpha}",
        r"\pL",
        r"\u0041",
        r"\x41",
        r"\Z",
        r"\G",
        r"\B",
        "[a[b]]",
        "[a&&b]",
        "[a--b]",
        "[~~]",
        "[[:alpha:]]",
        r"[\D]",
        r"[\b]",
        r"[\Qa\E]",
        "a{,5}",
        "a{",
        "{a}",
        "a{1001}",
        "(?x)a b",
        "(?u)a",
        r"\E",
        r"\ü",
        "(?P=x)",
        "(?'x'a)",
        r"\0",
        r"\cA",
        r"\e",
    ] {
        inexact(pattern);
    }
    inexact(&"(".repeat(200));
    inexact("(a{1000}){1000}");
}

#[test]
fn what_is_no_pattern_says_why() {
    invalid("a)(b", "unopened group");
    invalid("(a", "unclosed group");
    invalid("[a", "unclosed character class");
    invalid("*a", "repetition operator missing expression");
    invalid("a\\", "backslash");
    invalid("[b-a]", "range");
    invalid("a{3,2}", "repetition");
    invalid("(?", "unclosed group");
    invalid("(?i", "unclosed group");
}
