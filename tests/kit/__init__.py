"""What tests of several rooms share.

Who acts: `agent`, `cli`, `service`, `wire`, `clients`; a `person`, who is at a `terminal`, is in front of a `browser`,
answers (`asking`, `visits`) or is one of a `crowd`. What they meet: `tmux`, `panes`, `programs`, `adopted` shells,
`sshd`, `sandboxes`, `limits`, `disks`, `delays`, `repositories`. What is tried: `cases`, `steps`, `exactness`,
`streams`, `corpora`, `films`, `canaries`. The rest is how tests are made and how they run.
"""
