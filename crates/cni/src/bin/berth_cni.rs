use std::process::ExitCode;

fn main() -> ExitCode {
    berth_cni::Plugin::Cni.main()
}
