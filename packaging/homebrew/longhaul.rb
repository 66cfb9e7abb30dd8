# The formula of a tap; packaging/finish fills in the version and the checksums of the archives.
class Longhaul < Formula
  desc "Proxy that keeps long agent conversations inside the context window"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "@REPOSITORY@/releases/download/v@VERSION@/longhaul-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256:aarch64-apple-darwin@"
    end
    on_intel do
      url "@REPOSITORY@/releases/download/v@VERSION@/longhaul-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256:x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "@REPOSITORY@/releases/download/v@VERSION@/longhaul-@VERSION@-aarch64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256:aarch64-unknown-linux-musl@"
    end
    on_intel do
      url "@REPOSITORY@/releases/download/v@VERSION@/longhaul-@VERSION@-x86_64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256:x86_64-unknown-linux-musl@"
    end
  end

  def install
    bin.install "longhaul"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/longhaul.bash" => "longhaul"
    fish_completion.install "completions/longhaul.fish"
    zsh_completion.install "completions/_longhaul"
  end

  test do
    assert_match "longhaul #{version}", shell_output("#{bin}/longhaul -V")
  end
end
