use super::*;
use crate::testing::until;

/// Tests nothing: it is what the children of this crate's tests run.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        std::process::exit(work().into());
    }
}

/// This very test program as the child.
pub(crate) fn this_program() -> ChildCommand {
    let args = ["--exact", "child::tests::child", "--nocapture"].map(String::from).to_vec();
    ChildCommand { args, ..ChildCommand::default() }
}

/// A shell as the child.
pub(crate) fn shell(script: &str) -> ChildCommand {
    ChildCommand { program: "/bin/sh".into(), args: vec!["-c".into(), script.into()] }
}

const LONG: Duration = Duration::from_secs(60);

fn ran(script: &str, input: &[u8], timeout: Duration) -> Ended {
    let errand = Errand { task: Task::Winch, input, timeout, max_output: 100 };
    run(&shell(script), &errand, &Ender::default()).unwrap()
}

#[test]
fn a_child_that_does_not_end_is_killed() {
    let ended = ran("exec cat > /dev/null < /dev/zero", b"", Duration::from_millis(50));
    assert_eq!(ended.by, End::Clock);
    assert_eq!(signal_of(ended.status).as_deref(), Some("signal 9 (SIGKILL)"));
}

#[test]
fn a_child_that_reads_nothing_and_one_that_says_much_do_not_block() {
    let large = vec![0; 1 << 20];
    assert_eq!(ran("exit 7", &large, LONG).status.code(), Some(7));
    let talkative = ran("head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; exit 7", &large, LONG);
    assert_eq!((talkative.status.code(), talkative.output.len()), (Some(7), 100));
}

#[test]
fn a_compiler_sees_nothing_of_the_environment_and_a_library_all_of_it() {
    let path = |task| {
        let errand = Errand { task, input: b"", timeout: LONG, max_output: 1000 };
        let ended = run(&shell("echo ${HOME-none} $WEIR_CHILD"), &errand, &Ender::default()).unwrap();
        String::from_utf8(ended.output).unwrap()
    };
    assert_eq!(path(Task::Winch), "none winch\n");
    let home = std::env::var("HOME").unwrap_or("none".into());
    assert_eq!(path(Task::Library), format!("{home} library\n"));
}

#[test]
fn a_child_is_ended_by_another_thread_and_none_started_after() {
    let ender = Ender::default();
    let errand = Errand { task: Task::Behind, input: b"", timeout: LONG, max_output: 0 };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&shell("exec cat < /dev/zero"), &errand, &ender).unwrap().by);
        while ender.0.lock().1.is_none() {
            std::thread::yield_now();
        }
        ender.end();
        assert_eq!(running.join().unwrap(), End::Ender);
    });
    assert_eq!(run(&shell("exec cat < /dev/zero"), &errand, &ender).unwrap().by, End::Ender);
    assert!(begun.elapsed() < LONG);
}

/// What a script says first: the number of a process.
fn pid_of(ended: &Ended) -> Pid {
    let said = String::from_utf8_lossy(&ended.output);
    Pid::from_raw(said.trim().parse().expect("a number")).unwrap()
}

/// Whether a process runs: one that nobody has taken off yet does not.
fn runs(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}

/// It holds the child's output open.
#[test]
fn what_a_child_has_started_ends_with_it() {
    let cases = [
        ("sleep 90 & echo $!; exit 7", LONG, End::Itself),
        ("sleep 90 & echo $!; wait", Duration::from_millis(300), End::Clock),
    ];
    for (script, timeout, by) in cases {
        let begun = Instant::now();
        let ended = ran(script, b"", timeout);
        assert_eq!(ended.by, by);
        assert!(begun.elapsed() < LONG, "{script}");
        let started = pid_of(&ended);
        until("its end", || !runs(started));
    }
}

#[test]
fn what_leaves_a_childs_group_is_not_waited_for() {
    let begun = Instant::now();
    let ended = ran("setsid sleep 90 & echo $!; exit 7", b"", LONG);
    assert!(begun.elapsed() < LONG);
    assert_eq!(ended.status.code(), Some(7));
    kill_process(pid_of(&ended), Signal::KILL).unwrap();
}
