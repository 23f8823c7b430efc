//! Commands with an environment of their own, and commands on a terminal, with somebody who answers.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::Duration;

use rustix::io::{Errno, ioctl_fionbio};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::cell::TestCell;
use crate::command::Ran;
use crate::wait::DEADLINE;

/// Pause between two looks at a terminal.
const LOOK: Duration = Duration::from_millis(20);

impl TestCell {
    /// Runs a verb to its end, with variables in its environment.
    ///
    /// # Panics
    /// It does not end.
    pub async fn borough_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let line = arguments.join(" ");
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        let ran = tokio::time::timeout(DEADLINE * 2, command.output()).await;
        let output = ran.unwrap_or_else(|_| panic!("borough {line} does not end"));
        Ran::new(line, &output.expect("the program starts"))
    }

    /// Runs a verb on a terminal. Each of `answers` is typed when its question has been asked, in their order. The
    /// screen is in `stdout` of the result.
    ///
    /// # Panics
    /// It does not end, or does not ask.
    pub async fn on_terminal(
        &self,
        arguments: &[&str],
        variables: &[(&str, &str)],
        answers: &[(&str, &str)],
    ) -> Ran {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        answered(command.as_std(), answers).await
    }
}

/// Runs a command on a terminal, as [`TestCell::on_terminal`] does. A typed `\x03` interrupts it.
///
/// # Panics
/// It does not end, or does not ask.
pub async fn answered(command: &std::process::Command, answers: &[(&str, &str)]) -> Ran {
    let line: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let line = line.join(" ");
    let (ours, theirs) = terminal().expect("a terminal");
    let end = || Stdio::from(theirs.try_clone().expect("a descriptor"));
    // The terminal controls the command only in a session of its own.
    let mut session = tokio::process::Command::new("setsid");
    session.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
    session.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    session.stdin(end()).stdout(end()).stderr(end()).kill_on_drop(true);
    let mut child = session.spawn().expect("the program starts");
    // The end of the output is seen only when no copy of the other end is left here.
    drop((session, theirs));
    let mut screen = Vec::new();
    let dialogue = tokio::time::timeout(DEADLINE * 2, dialogue(&ours, answers, &mut screen));
    let complete = dialogue.await.is_ok();
    let text = String::from_utf8_lossy(&screen).into_owned();
    assert!(complete, "borough {line} does not end, or does not ask what the test answers:\n{text}");
    let status = child.wait().await.expect("the program ends");
    Ran::new(line, &std::process::Output { status, stdout: screen, stderr: Vec::new() })
}

/// A terminal: our end, which does not block, and that of a command.
fn terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?.to_string_lossy().into_owned();
    let theirs = File::options().read(true).write(true).open(name)?;
    ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs.into()))
}

/// Reads the screen to its end, and answers the questions.
async fn dialogue(terminal: &OwnedFd, answers: &[(&str, &str)], screen: &mut Vec<u8>) {
    let mut answers = answers.iter();
    let mut next = answers.next();
    let mut answered = 0;
    let mut buffer = [0; 4096];
    loop {
        match rustix::io::read(terminal, &mut buffer) {
            // A terminal whose other end is closed reports an error.
            Ok(0) | Err(Errno::IO) => break,
            Ok(length) => screen.extend(buffer.get(..length).unwrap_or_default()),
            Err(_) => tokio::time::sleep(LOOK).await,
        }
        let unanswered = String::from_utf8_lossy(screen.get(answered..).unwrap_or_default()).into_owned();
        if let Some((question, answer)) = next
            && unanswered.contains(question)
        {
            rustix::io::write(terminal, answer.as_bytes()).expect("the answer is typed");
            answered = screen.len();
            next = answers.next();
        }
    }
    // What was never asked is an error of the test: it waits here for its deadline.
    if next.is_some() {
        std::future::pending::<()>().await;
    }
}
