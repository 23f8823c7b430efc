//! Which allocs leave, when jobs in them can miss few of their tasks.

use super::*;

/// What has to leave two nodes at once has one budget.
#[tokio::test]
async fn allocs_that_leave_two_nodes_leave_within_one_budget() {
    let world = World::with_members().await;
    for index in 0..ALLOCS {
        world.run_alloc(index, NODES[index as usize]).await;
        world.run_inside(of(WEB, index), index, 100).await;
    }
    let mut update = set_spec();
    update.update = Some(UpdateSpec { unavailable_max: Some(2), ..UpdateSpec::default() });
    world.submit(&update, SET).await.unwrap();
    world.run_inside(of(WEB, 2), 0, 100).await;
    world.moves_of_nodes(&[&[1], &[0]]).await;
    let stopping = async |task| world.row(task).await.stop;
    assert_eq!(stopping(of(SET, 1)).await, Some(StopReason::Drained));
    assert_eq!(stopping(of(SET, 0)).await, None, "the job inside may miss one task");
}

/// An alloc that a job in it keeps where it is takes no place from another one, for which that job waits.
#[tokio::test]
async fn the_alloc_of_a_task_that_crashed_leaves_before_others() {
    let world = World::new().await;
    world.submit(&member_spec("web", 2, 100), WEB).await.unwrap();
    for index in 0..ALLOCS {
        world.run_alloc(index, NODES[0]).await;
        world.run_inside(of(WEB, index), index, 100).await;
    }
    world.exit(of(WEB, 1)).await;
    world.moves(&[0, 1]).await;
    let stopping = async |task| world.row(task).await.stop;
    assert_eq!(stopping(of(SET, 0)).await, None, "the other task of the job is away");
    assert_eq!(stopping(of(SET, 1)).await, Some(StopReason::Drained), "and comes back with this one");
}
