//! Prints the four lines that say what to do next.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use super::directory::Directory;

/// Scripts wait for the first line, which begins with `Berth is up`.
pub fn print(kubeconfig: &Path, dashboard: SocketAddr, directory: &Directory) {
    let kept = if directory.is_durable() {
        format!("Ctrl-C; all is kept in {directory}, and the next `berth up` goes on from there")
    } else {
        "Ctrl-C; nothing is kept".to_owned()
    };
    let text = format!(
        "Berth is up. export KUBECONFIG={}\nTry:         kubectl create deployment web \
         --image=nginx --replicas=20 && kubectl get pods -o wide\nDashboard:   \
         http://{dashboard}/\nTo stop:     {kept}\n",
        quoted(&kubeconfig.display().to_string()),
    );
    let mut out = std::io::stdout().lock();
    // A closed stdout is no reason to stop.
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Quotes for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_when_a_shell_needs_it() {
        assert_eq!(quoted("/home/a.b/kubeconfig"), "/home/a.b/kubeconfig");
        assert_eq!(quoted("/home/my data/it's"), r"'/home/my data/it'\''s'");
    }
}
