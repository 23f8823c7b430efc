//! `job edit`: the stored job in an editor.

use std::path::Path;

use borough_tests::{Ran, TestCell, is_up, options};

const JOB: &str = "name: web\nlabels: {team: shop}\ntask: {command: [sleep, '600'], resources: {cpu: 10m, memory: 4MiB}, \
    grace: 100ms}\n";

/// Edits the job without a terminal, by an editor that is this command line.
async fn edit(cell: &TestCell, editor: &str, drafts: &Path) -> Ran {
    let variables = [("VISUAL", ""), ("EDITOR", editor), ("TMPDIR", drafts.to_str().unwrap())];
    cell.borough_with(&["job", "edit", "web", "--yes"], &variables).await
}

/// The texts that were kept; removes them.
fn kept(drafts: &Path) -> Vec<String> {
    let entries: Vec<_> = std::fs::read_dir(drafts).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::remove_file(path).unwrap();
            text
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stored_job_is_edited_and_whatever_is_not_applied_is_kept() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", JOB).await;
    let drafts = tempfile::tempdir().unwrap();
    let drafts = drafts.path();
    let before = cell.client().job_get(&cell.job("web")).await.unwrap().job.unwrap();

    // Nothing is asked where nobody can answer, and an unchanged file changes nothing.
    let mute = cell.borough(&["job", "edit", "web"]).await.ended(2);
    mute.warns("standard input is no terminal").warns("--yes");
    // The editor that nobody has named would wait for a terminal for ever.
    let none = edit(&cell, "", drafts).await.ended(2);
    none.warns("no terminal, and neither VISUAL nor EDITOR names an editor").warns("borough job run FILE");
    edit(&cell, "true", drafts).await.ended(0).warns("tester/web: no change");
    edit(&cell, "echo '# a remark' >>", drafts).await.ended(0).warns("tester/web: no change");
    assert!(kept(drafts).is_empty());
    let same = cell.client().job_get(&cell.job("web")).await.unwrap().job.unwrap();
    assert_eq!(same.revision, before.revision);

    // A dry run says what the change would do, asks nothing, and keeps the text.
    let variables =
        [("VISUAL", ""), ("EDITOR", "sed -i s/team:.*/team:\\ front/"), ("TMPDIR", drafts.to_str().unwrap())];
    let dry = cell.borough_with(&["job", "edit", "web", "--dry-run"], &variables).await.ended(1);
    let dry = dry.prints("~ labels.team: shop -> front").prints("dry run: the cell takes the change");
    dry.warns("your text is kept in ").warns("to apply it: borough job run ");
    let kept_text = kept(drafts);
    assert!(kept_text.len() == 1 && kept_text[0].contains("team: front"), "{kept_text:?}");
    let same = cell.client().job_get(&cell.job("web")).await.unwrap().job.unwrap();
    assert_eq!(same.revision, before.revision);

    let ran =
        edit(&cell, "sed -i -e s/team:.*/team:\\ front/ -e 's/count: 1/count: 2/'", drafts).await.ended(0);
    ran.clone().prints("~ count: 1 -> 2").prints("~ labels.team: shop -> front").prints("place task 1");
    ran.prints("tester/web: 2/2 healthy");
    cell.tasks_until("web", "two", |tasks| is_up(tasks, 2)).await;
    assert!(kept(drafts).is_empty());

    // What cannot be applied is refused whole, and the text is kept.
    let wrong = [
        ("s/count: 2/count: -3/", 2, "count: -3; accepted:"),
        ("s/name: web/name: other/", 2, "name: other; accepted: web, the name of the edited job"),
        ("s/user: .*/user: ann/", 2, "user: ann; accepted: tester, the user of the edited job"),
        ("s/^kind: service/kind: batch/", 4, "the gateway would refuse it"),
        ("s/^count: 2/count: 3\\nqueue: nowhere/", 2, "nowhere"),
    ];
    for (script, code, message) in wrong {
        let ran = edit(&cell, &format!("sed -i '{script}'"), drafts).await.ended(code).warns(message);
        let texts = kept(drafts);
        assert_eq!(texts.len(), 1, "{script}");
        let said = ran.stdout.matches(message).count() + ran.stderr.matches(message).count();
        assert_eq!(said, 1, "{ran:?}");
        assert!(
            ran.stderr.contains("your text is kept in") && texts[0].contains("# Job tester/web in cell"),
            "{ran:?}"
        );
    }
    edit(&cell, "false", drafts).await.ended(1).warns("the editor \"false\" failed");
    assert!(kept(drafts).is_empty(), "nobody has written anything");
    edit(&cell, "sed -i 's/count: 2/count: 9/' \"$1\"; false", drafts)
        .await
        .ended(1)
        .warns("your text is kept in");
    assert!(kept(drafts)[0].contains("count: 9"));
    edit(&cell, "f() { rm \"$1\" && mkfifo \"$1\"; }; f", drafts).await.ended(2).warns("is a FIFO");
    let left = std::fs::read_dir(drafts).unwrap().map(|entry| entry.unwrap().path());
    left.for_each(|path| std::fs::remove_file(path).unwrap());

    // Somebody changes the job while the editor is open.
    let program = cell.command(&[]).as_std().get_program().to_str().unwrap().to_owned();
    let meanwhile = format!("{program} job label web team=back; sed -i 's/count: 2/count: 3/'");
    let late = edit(&cell, &meanwhile, drafts).await.ended(4);
    late.warns("it has changed since the editor showed revision").warns("your text is kept in");
    assert!(kept(drafts)[0].contains("count: 3"));
    assert_eq!(cell.tasks("web").await.len(), 2);

    on_a_terminal(&cell, drafts).await;
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    edit(&cell, "true", drafts).await.ended(4).warns("job tester/web is stopped");
    let nothing = cell.borough(&["job", "edit", "nothing", "--yes"]).await.ended(3);
    nothing.warns("no job \"nothing\" of user tester");
    cell.finish().await;
}

/// A change is for the job that the editor showed, and not for a later one of its name and revision.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_edit_of_a_job_that_has_ended_does_not_change_the_next_one() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let file = cell.file("web.yaml", JOB);
    cell.borough(&["job", "run", &file]).await.ended(0);
    let drafts = tempfile::tempdir().unwrap();
    let stored = async || cell.client().job_get(&cell.job("web")).await.unwrap().job.unwrap();
    let before = stored().await;
    let program = cell.command(&[]).as_std().get_program().to_str().unwrap().to_owned();
    let meanwhile =
        format!("{program} -q job stop web && {program} -q job run {file} && sed -i 's/count: 1/count: 3/'");
    let late = edit(&cell, &meanwhile, drafts.path()).await.ended(4);
    let after = stored().await;
    assert!(after.id != before.id && after.revision == before.revision, "{before:?} {after:?}");
    late.warns("is not the one that the change was made for").warns("your text is kept in");
    assert_eq!(after.count, 1);
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

/// A mistake is edited again, and the change waits for a yes.
async fn on_a_terminal(cell: &TestCell, drafts: &Path) {
    let seen = drafts.join("seen");
    // The first text is wrong, and later ones are not.
    let script = format!(
        "if [ -e {seen} ]; then sed -i 's/count: .*/count: 1/' $1; else touch {seen}; sed -i 's/count: .*/count: x/' $1; fi",
        seen = seen.display()
    );
    let editor = format!("sh {}", cell.file("editor.sh", &script));
    let variables = [("VISUAL", editor.as_str()), ("EDITOR", "false"), ("TMPDIR", drafts.to_str().unwrap())];
    let verb = ["job", "edit", "web"];
    let again = ("edit it again? [Y/n]", "\n");
    let apply = "cell alpha: apply this to job tester/web? [y/N]";
    let no = cell.on_terminal(&verb, &variables, &[again, (apply, "\n")]).await.ended(1);
    no.prints("count: \"x\"")
        .prints("stop task 1")
        .prints("nothing was changed")
        .prints("your text is kept in");
    assert_eq!(cell.client().job_get(&cell.job("web")).await.unwrap().job.unwrap().count, 2);
    std::fs::remove_file(&seen).unwrap();
    assert!(kept(drafts)[0].contains("count: 1"));
    let given_up = cell.on_terminal(&verb, &variables, &[("edit it again? [Y/n]", "n\n")]).await.ended(2);
    given_up.prints("tester/web was not changed").prints("your text is kept in");
    cell.on_terminal(&verb, &variables, &[(apply, "y\n")]).await.ended(0).prints("tester/web: 1/1 healthy");
}

/// A count below an override is no matter of labels, and the file of an edit leaves the override out.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_that_was_scaled_below_an_override_is_labelled_and_edited() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", &format!("{JOB}count: 2\noverrides: {{1: {{weight: 5}}}}\n")).await;
    cell.borough(&["job", "scale", "--yes", "web", "1"]).await.ended(0);
    cell.borough(&["job", "label", "web", "tier=front"]).await.ended(0);
    let drafts = tempfile::tempdir().unwrap();
    let editor = "grep 'overrides of 1, which the job does not have now'";
    edit(&cell, editor, drafts.path()).await.ended(0).warns("tester/web: no change");
    edit(&cell, "sed -i s/600/605/", drafts.path()).await.ended(0).prints("1/1 healthy");
    cell.finish().await;
}
