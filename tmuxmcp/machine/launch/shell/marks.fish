# tmuxmcp marks for fish (3.4 and later): where prompts, commands and their output begin and end, as in bash.sh.
#
# fish has events for all of them, so prompts and prompt functions stay the user's own. It asks for the rest of an
# unfinished command inside its editor, so one key tells, ESC[34;8~: it answers with P;k=g, reads "JOB NUL SIZES NUL
# COMMAND NUL" from the terminal and runs the command in place of whatever was typed, without abbreviations, completions
# and pastes. C, D and P (incomplete: nothing was run, the line is empty again) then carry job=JOB. C tells the command,
# and C and D the time since the machine began, up=SECONDS: fish itself has no clock.
#
# Read by --init-command, after the user's own files.

# Once, by a file: other processes can read the environment that a shell began with as long as it lives.
if set -q TMUXMCP_NONCE_FILE
    set -e TMUXMCP_NONCE
    builtin read -gu TMUXMCP_NONCE <$TMUXMCP_NONCE_FILE 2>/dev/null
    and builtin printf '' >$TMUXMCP_NONCE_FILE
    set -e TMUXMCP_NONCE_FILE
end

if status is-interactive; and set -q TMUXMCP_NONCE; and builtin string match -qr '^(3\.([4-9]|\d\d)|[4-9]|\d\d)' -- $version
    set -g __tmuxmcp_aid $TMUXMCP_NONCE
    # Prompts are counted from here on, as in bash.sh.
    set -q __tmuxmcp_from; or set -g __tmuxmcp_from 0
    set -g __tmuxmcp_n $__tmuxmcp_from
    set -g __tmuxmcp_job
    set -g __tmuxmcp_next
    set -g __tmuxmcp_given
    set -g __tmuxmcp_status
    # A proof that came with a command: one half comes with E, the other with D, and they are nobody else's until then.
    set -gu __tmuxmcp_proof
    set -gu __tmuxmcp_over
    set -gu __tmuxmcp_done
    set -g __tmuxmcp_begun
    set -g __tmuxmcp_told
    set -g __tmuxmcp_late
    switch "$TMUXMCP_HISTFILE"
        case ''
        case '*'
            # fish keeps histories in one place only: the session's own lives in its memory.
            set -g fish_history ''
    end
    set -e TMUXMCP_NONCE TMUXMCP_HISTFILE

    # The functions below read as much as fish does by default, whatever limit (fish_read_limit) the user has set.

    # Written to the terminal itself, whatever a command did to fish's own output.
    function __tmuxmcp_mark
        set -l job
        test -z "$__tmuxmcp_job"; or set job ";job=$__tmuxmcp_job"
        builtin printf '\e]133;%s;aid=%s;n=%s%s\a' $argv[1] $__tmuxmcp_aid $__tmuxmcp_n "$argv[2]$argv[3]$job" >/dev/tty
    end

    # A file that is always there on Linux, and that is read without another process.
    function __tmuxmcp_uptime
        builtin test -r /proc/uptime; and builtin read -l up rest </proc/uptime; and builtin printf ';up=%s' $up
    end

    # E: the output ends. D comes with the next prompt, and not from a shell that exits.
    function __tmuxmcp_postexec --on-event fish_postexec
        set -g __tmuxmcp_status $status
        __tmuxmcp_mark E $__tmuxmcp_over
    end

    # The user's own functions at the end of a command come after ours: what they print is not the command's.
    for line in (functions --handlers-type generic)
        set -l words (builtin string split -n ' ' -- $line)
        if test "$words[1]" = fish_postexec -a "$words[2]" != __tmuxmcp_postexec
            functions -- $words[2] | source
        end
    end

    # SIGHUP ended the shell in the middle of a command: E says so, as fish then exits with a status that a command can have.
    # Or a function of the user's for a signal, none of fish's own, may have done so: then the command has ended before.
    function __tmuxmcp_exit --on-event fish_exit
        set -l fish_read_limit 104857600
        test -n "$__tmuxmcp_begun"; or return
        if test -z "$__tmuxmcp_status"
            __tmuxmcp_mark 'E;k=h' $__tmuxmcp_over
        else if functions --handlers-type signal | builtin string match -qr '^SIG(?!WINCH )\S+ (?!__fish_|fish_sigtrap_handler)'
            __tmuxmcp_mark 'E;k=t' $__tmuxmcp_over
        end
    end

    # A Ctrl-C can end each of these functions, and come between a command and its name: only marks of the very text that
    # was given carry that name.
    function __tmuxmcp_preexec --on-event fish_preexec
        set -l fish_read_limit 104857600
        set -g __tmuxmcp_job
        set -g __tmuxmcp_begun 1
        if contains -- "$argv[1]" "$__tmuxmcp_given " "$__tmuxmcp_given"
            __tmuxmcp_is_given
        end
        set -g __tmuxmcp_next
        set -g __tmuxmcp_proof
        # Without the blank behind a command of ours. A mark has a bounded length.
        set -l text (builtin string trim --right --chars ' ' -- "$argv[1]" | builtin string collect)
        if test (builtin string length -- "$text") -gt 1000
            set text (builtin string sub --length 1000 -- "$text" | builtin string collect)…
        end
        __tmuxmcp_mark C (__tmuxmcp_uptime)";cmdline_url="(builtin string escape --style=url -- $text)
    end

    function __tmuxmcp_is_given
        set -g __tmuxmcp_job $__tmuxmcp_next
        if test (builtin string length -- "$__tmuxmcp_proof") -eq 64
            set -g __tmuxmcp_over ";p="(builtin string sub --length 32 -- $__tmuxmcp_proof)
            set -g __tmuxmcp_done ";p="(builtin string sub --start 33 -- $__tmuxmcp_proof)
        end
    end

    function __tmuxmcp_prompt --on-event fish_prompt
        set -l last $status
        set -l fish_read_limit 104857600
        test -n "$__tmuxmcp_status"; or set -g __tmuxmcp_status $last
        # Not told where PWD names another directory, as in bash.sh; nor before fish 3.6, which cannot say.
        set -l path
        builtin test "$PWD" -ef . 2>/dev/null; and set path (builtin string escape --style=url -- $PWD)
        if test $__tmuxmcp_n -gt $__tmuxmcp_from
            __tmuxmcp_mark "D;$__tmuxmcp_status$__tmuxmcp_late" (__tmuxmcp_uptime)";cwd="$path $__tmuxmcp_done
        end
        set -g __tmuxmcp_n (builtin math $__tmuxmcp_n + 1)
        set -g __tmuxmcp_job
        set -g __tmuxmcp_over
        set -g __tmuxmcp_done
        set -e _tm_a _tm_s _tm_t
        functions --erase _tm_z
        if test -n "$path" -a "$path" != "$__tmuxmcp_told"
            set -g __tmuxmcp_told $path
            builtin printf '\e]7;file://%s%s\a' $hostname $path >/dev/tty
        end
        __tmuxmcp_mark A
        __tmuxmcp_mark B
        # The first is always there, also where all its keys were taken away. In vi's modes it may be at this prompt already:
        # all fish shells of a user go over to them when one does (`fish_vi_key_bindings`).
        for mode in default insert visual replace replace_one (builtin bind --list-modes)
            for key in $__tmuxmcp_keys
                builtin bind -M $mode $key $__tmuxmcp_steps
            end
        end
        # The user's own functions at the beginning of a command come before ours: what they print is not the command's.
        set -l handlers (functions --handlers-type generic | builtin string match 'fish_preexec *')
        test "$handlers[-1]" = 'fish_preexec __tmuxmcp_preexec'; or functions -- __tmuxmcp_preexec | source
        set -g __tmuxmcp_status
        set -g __tmuxmcp_begun
        set -g __tmuxmcp_late
    end

    # The second is for brokers of earlier versions, which know no other; fish drops it from 4.0.6 on.
    set -g __tmuxmcp_keys \e\[34\;8~ \e\[7777~

    # Our key calls these in turn, some of them more than once: a Ctrl-C ends one, and the next goes on where that was. So
    # whatever is typed after P;k=g is read here, and stands in nobody's line.
    set -g __tmuxmcp_steps __tmuxmcp_asked __tmuxmcp_listen{,,,,} __tmuxmcp_run __tmuxmcp_drop
    # Before all, what `functions --erase` took away comes back.
    set -p __tmuxmcp_steps 'set -g __tmuxmcp_last $status; functions -q $__tmuxmcp_names; or builtin printf "%s\n" $__tmuxmcp_texts | source'

    function __tmuxmcp_asked
        set -g __tmuxmcp_step
        # A command uses the line editor: `read`.
        if test (builtin status current-command) != fish
            __tmuxmcp_mark 'P;k=r'
            return
        end
        # A Ctrl-C ended what tells of the end of the command, and of this prompt.
        if test -n "$__tmuxmcp_begun"
            test -n "$__tmuxmcp_status"; or set -g __tmuxmcp_status $__tmuxmcp_last
            set -g __tmuxmcp_late ';h=1'
            __tmuxmcp_prompt
        end
        set -e __tmuxmcp_given_job
        set -e __tmuxmcp_given_size
        set -e __tmuxmcp_given_text
        set -g __tmuxmcp_step listen
    end

    function __tmuxmcp_listen
        set -l fish_read_limit 104857600
        test -n "$__tmuxmcp_step"; or return
        if test $__tmuxmcp_step = listen
            __tmuxmcp_mark 'P;k=g'
            set -g __tmuxmcp_step read
        end
        for field in __tmuxmcp_given_job __tmuxmcp_given_size __tmuxmcp_given_text
            set -q $field; or builtin read -guz $field </dev/tty
        end
    end

    function __tmuxmcp_run
        set -l fish_read_limit 104857600
        test -n "$__tmuxmcp_step"; or return
        # A proof has 64 characters, and a name eight; what somebody typed meanwhile stands before them.
        set -g __tmuxmcp_next (builtin string sub --start=-8 -- "$__tmuxmcp_given_job")[-1]
        set -g __tmuxmcp_proof (builtin string match -r '[0-9a-f]{64}(?=.{8}$)' -- "$__tmuxmcp_given_job")
        set -g __tmuxmcp_given "$__tmuxmcp_given_text"
        # In characters, or in bytes where the locale knows no others.
        contains -- (builtin string length -- "$__tmuxmcp_given") (builtin string split ' ' -- $__tmuxmcp_given_size)
        or return
        set -g __tmuxmcp_step typed
        builtin commandline -r -- "$__tmuxmcp_given"
        builtin commandline --is-valid
        switch $status
            case 0
                # The blank keeps an abbreviation at the end from being expanded.
                builtin commandline -r -- "$__tmuxmcp_given "
                builtin commandline -f execute
            case 2
                __tmuxmcp_not_run s
                builtin commandline -r ''
            case '*'
                __tmuxmcp_refuse "$__tmuxmcp_given"
        end
        set -g __tmuxmcp_step
    end

    # It did not come whole, or a Ctrl-C came before it was run.
    function __tmuxmcp_drop
        test -n "$__tmuxmcp_step"; or return
        test $__tmuxmcp_step != typed; or builtin commandline -r ''
        __tmuxmcp_not_run r
        set -g __tmuxmcp_step
    end

    # The prompt stays, and may be used again.
    function __tmuxmcp_not_run
        __tmuxmcp_mark A
        __tmuxmcp_mark B
        set -g __tmuxmcp_job $__tmuxmcp_next
        set -g __tmuxmcp_next
        __tmuxmcp_mark "P;k=$argv[1]"
        set -g __tmuxmcp_job
    end

    # fish does not run it, and says why; here between marks, as if it had been run.
    function __tmuxmcp_refuse
        builtin printf '%s\n' $argv[1] >/dev/tty
        __tmuxmcp_is_given
        set -g __tmuxmcp_next
        set -g __tmuxmcp_proof
        __tmuxmcp_mark C
        set -l fish (status fish-path)
        $fish --no-config --no-execute -c $argv[1] </dev/null >/dev/tty 2>&1
        set -g __tmuxmcp_status 127
        __tmuxmcp_prompt
        builtin commandline -r ''
        builtin commandline -f repaint
    end
    # Takes the marks out of this shell again, for good.
    function __tmuxmcp_off
        set -l fish_read_limit 104857600
        for mode in (builtin bind --list-modes)
            for key in $__tmuxmcp_keys
                builtin bind -M $mode --erase $key
            end
        end
        __tmuxmcp_mark 'P;k=u'
        functions --erase (functions --all --names | builtin string match '__tmuxmcp_*')
        for name in (set --names | builtin string match '__tmuxmcp_*')
            set -e $name
        end
    end

    set -g __tmuxmcp_names (functions --all --names | builtin string match '__tmuxmcp_*')
    set -g __tmuxmcp_texts (functions -- $__tmuxmcp_names)
end
