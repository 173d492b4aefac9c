"""Sessions on another machine: by the person's own OpenSSH, its configuration, agent and known hosts.

What stands here builds the words of ssh, and speaks with the witness at the far end. It never answers a question of
ssh: host keys, passphrases and passwords are the person's business.
"""
