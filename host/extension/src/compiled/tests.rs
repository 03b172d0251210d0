use super::*;

fn command(script: &str) -> CompilerCommand {
    CompilerCommand { program: "/bin/sh".into(), args: vec!["-c".into(), script.into()] }
}

#[track_caller]
fn fails(script: &str, bytes: &[u8], timeout: Duration, because: &str) {
    let error = run_child(&command(script), bytes, timeout).unwrap_err().to_string();
    assert!(error.contains(because), "{error}");
}

/// Tests nothing: it is what the compiler children of this crate's tests run.
#[test]
fn compiler_child() {
    if std::env::var_os(COMPILER_CHILD).is_some() {
        std::process::exit(child().into());
    }
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_frame_is_found_behind_noise_and_only_whole() {
    let framed = frame(b"code");
    assert_eq!(unframe(&framed), Some(&b"code"[..]));
    let noisy = [b"running 1 test\n", &framed[..], b"ok\n"].concat();
    assert_eq!(unframe(&noisy), Some(&b"code"[..]));
    for end in 0..framed.len() {
        assert_eq!(unframe(&framed[..end]), None, "cut at {end}");
    }
    for at in 0..framed.len() {
        let mut damaged = framed.clone();
        damaged[at] ^= 1;
        assert_eq!(unframe(&damaged), None, "damaged at {at}");
    }
}

#[test]
fn each_end_of_a_child_has_its_sentence() {
    fails("echo 'bad magic' >&2; exit 3", b"", LONG, "not a valid component: bad magic");
    fails("kill -ABRT $$", b"", LONG, "more than 1024 MiB of memory");
    fails("kill -XCPU $$", b"", LONG, "more than 60 s of processor time");
    fails("exit 7", b"", LONG, "ended with exit status: 7");
    fails("echo hello", b"", LONG, "damaged");
}

#[test]
fn a_child_that_does_not_end_is_killed() {
    fails("exec cat > /dev/null < /dev/zero", b"", Duration::from_millis(50), "took longer than");
}

#[test]
fn a_child_that_reads_nothing_and_one_that_complains_much_do_not_block() {
    let large = vec![0; 1 << 20];
    fails("exit 7", &large, LONG, "exit status: 7");
    fails("head -c 1000000 /dev/zero >&2; exit 7", &large, LONG, "exit status: 7");
}

fn cache(folder: &Path) -> Cache {
    Cache::open(folder, &Runtime::engine_without_ticker()).unwrap()
}

#[test]
fn the_cache_gives_back_whole_files_only() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&folder.path().join("a/b"));
    assert_eq!(cache.get("00"), None);
    cache.put("00", b"code");
    assert_eq!(cache.get("00").as_deref(), Some(&b"code"[..]));
    fs::write(cache.path("00"), &frame(b"code")[..HEADER + 2]).unwrap();
    assert_eq!(cache.get("00"), None);
}

#[test]
fn the_cache_keeps_a_number_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&folder.path().join("c"));
    for name in ["00", "01", "02"] {
        cache.put(name, b"code");
    }
    cache.prune(1).unwrap();
    assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 1);
}

#[test]
fn a_folder_that_others_may_enter_is_closed_and_a_link_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = folder.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    private_folder(&open).unwrap();
    assert_eq!(fs::metadata(&open).unwrap().mode() & 0o777, 0o700);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&open, &link).unwrap();
    assert!(private_folder(&link).unwrap_err().to_string().contains("link"));
}
