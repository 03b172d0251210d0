use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test]
async fn work_comes_back() {
    let workers = Workers::new(2);
    assert_eq!(workers.run(|_| 42).await, Ok(42));
}

#[tokio::test]
async fn a_panic_is_told_and_the_thread_goes_on() {
    let workers = Workers::new(1);
    let panicked = workers.run(|_| -> u32 { panic!("boom") }).await;
    assert_eq!(panicked, Err(Panicked("boom".to_owned())));
    assert_eq!(workers.run(|_| 42).await, Ok(42));
}

#[tokio::test]
async fn threads_run_side_by_side() {
    let workers = Arc::new(Workers::new(2));
    let barrier = Arc::new(Barrier::new(2));
    // Each waits for the other: one thread alone would never finish.
    let [a, b] = [Arc::clone(&barrier), barrier].map(|barrier| {
        let workers = Arc::clone(&workers);
        tokio::spawn(async move { workers.run(move |_| barrier.wait().is_leader()).await })
    });
    let (a, b) = (a.await.unwrap().unwrap(), b.await.unwrap().unwrap());
    assert!(a ^ b);
}

#[tokio::test]
async fn more_callers_than_places_all_get_their_turn() {
    let workers = Arc::new(Workers::new(1));
    let done = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let (workers, done) = (Arc::clone(&workers), Arc::clone(&done));
            tokio::spawn(async move { workers.run(move |_| done.fetch_add(1, Ordering::Relaxed)).await })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(done.load(Ordering::Relaxed), 100);
}

#[tokio::test]
async fn dropping_the_pool_waits_for_the_work_in_hand() {
    let workers = Workers::new(1);
    let done = Arc::new(AtomicUsize::new(0));
    let (go, wait) = bounded(0);
    let worked = Arc::clone(&done);
    let mut running = Box::pin(workers.run(move |_| {
        wait.recv().unwrap();
        worked.fetch_add(1, Ordering::Relaxed);
    }));
    // Polled once, the work is in the queue; the caller goes away and the work goes on.
    std::future::poll_fn(|cx| {
        assert!(running.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    drop(running);
    go.send(()).unwrap();
    drop(workers);
    assert_eq!(done.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn another_thread_works_in_place_of_one_that_is_held() {
    let workers = Arc::new(Workers::held_after(1, Duration::from_millis(20)));
    let (go, wait) = bounded::<()>(0);
    let (began, begins) = oneshot::channel();
    let held = tokio::spawn({
        let workers = Arc::clone(&workers);
        async move {
            let work = move |_: &mut Worker| {
                began.send(()).unwrap();
                wait.recv().is_err()
            };
            workers.run(work).await
        }
    });
    begins.await.unwrap();
    assert_eq!(workers.run(|_| 42).await, Ok(42));
    assert_eq!(workers.run(|_| 43).await, Ok(43));
    assert_eq!(workers.held(), 1);
    // What it was held by gave it free after all.
    drop(go);
    assert_eq!(held.await.unwrap(), Ok(true));
    // Its caller is told a moment before the watch is.
    while workers.held() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(workers.run(|_| 44).await, Ok(44));
}

#[tokio::test]
async fn dropping_the_pool_does_not_wait_for_a_thread_that_is_held() {
    let workers = Arc::new(Workers::held_after(1, Duration::from_millis(20)));
    let (_go, wait) = bounded::<()>(0);
    let (began, begins) = oneshot::channel();
    let held = tokio::spawn({
        let workers = Arc::clone(&workers);
        async move {
            let work = move |_: &mut Worker| {
                began.send(()).unwrap();
                wait.recv().is_err()
            };
            workers.run(work).await
        }
    });
    begins.await.unwrap();
    held.abort();
    let _ = held.await;
    drop(Arc::into_inner(workers).expect("nobody else has it"));
}
